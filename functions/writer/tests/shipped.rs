//! What is shipped can't be mutated.

use icefall_mutations::mark;

/// The promises that the fault simulation breaks on purpose can't be broken in this program: not in the build that the
/// demo and the tests on real parts run, which is this one.
#[test]
fn no_promise_can_be_broken_on_purpose() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_writer")).expect("it was built");
    assert!(!program.windows(mark().len()).any(|bytes| bytes == mark().as_bytes()));
}
