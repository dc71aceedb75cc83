//! Values that must never reach a log.
//!
//! Settings are printed at start-up, in errors and in tests. A [`Secret`] makes that safe by type: it
//! has no `Display`, its `Debug` is masked, it can't be serialised, and reading it takes a call that
//! is easy to search for. Its memory is overwritten when it is dropped.

use std::fmt;

use zeroize::Zeroizing;

/// A text that can't be printed by accident.
///
/// ```compile_fail,E0277
/// let secret = icefall_secret::Secret::new("hush".to_owned());
/// println!("{secret}"); // a secret has no `Display`
/// ```
#[derive(Clone, Eq, PartialEq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes the text over; no copy of it is left with the caller.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The text itself, for the one place that signs with it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_masks_the_text_and_its_length() {
        assert_eq!(format!("{:?}", Secret::new("hush".to_owned())), "Secret(***)");
        assert_eq!(format!("{:#?}", Secret::new(String::new())), "Secret(***)");
    }
}
