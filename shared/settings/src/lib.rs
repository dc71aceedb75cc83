//! Raw settings to one validated struct.
