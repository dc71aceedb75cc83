"""The benchmarks behind `cargo xtask bench`: speed, memory, size and start of the deployed functions.

What is measured is the release programs, unpacked from the very zips that would be uploaded, hosted by the
Runtime API emulator against a local stack. Speed is CPU time, never elapsed time, and always beside a
yardstick that ran on the same core in the same run: a pyarrow script for the writer, a bare function for
the init times. So the ratios hold on a machine that is slower, or busy with something else.
"""
