//! End to end on real parts.
