//! Fakes, k-th-call failures and conformance suites.
