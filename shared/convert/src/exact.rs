//! Numbers of decimal text, exactly.
//!
//! A number is a whole mantissa times a power of ten. Bringing it to a scale is a multiplication or
//! it is refused: there is no division here, so nothing can be rounded.

use crate::error::BadRecordClass;

/// Why a number has no value at a scale.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Inexact {
    /// More digits than any type holds.
    TooLarge,
    /// Digits other than zero below the scale.
    BelowScale,
}

impl Inexact {
    pub(crate) const fn class(self) -> BadRecordClass {
        match self {
            Self::TooLarge => BadRecordClass::OutOfRange,
            Self::BelowScale => BadRecordClass::NotExact,
        }
    }
}

/// The number of `text`, which follows JSON's grammar, times ten to the `scale`.
pub(crate) fn scaled(text: &str, scale: u32) -> Result<i128, Inexact> {
    let (mantissa, exponent) = split_exponent(text);
    let negative = mantissa.starts_with('-');
    let (digits, power) = significant(mantissa)?;
    if digits == 0 {
        return Ok(0);
    }
    let shift = power.saturating_add(exponent).saturating_add(i64::from(scale));
    if shift < 0 {
        return Err(Inexact::BelowScale);
    }
    let factor = u32::try_from(shift).ok().and_then(|shift| 10_u128.checked_pow(shift));
    let value =
        factor.and_then(|factor| digits.checked_mul(factor)).and_then(|value| i128::try_from(value).ok());
    let value = value.ok_or(Inexact::TooLarge)?;
    Ok(if negative { -value } else { value })
}

/// The text before the exponent, and the exponent. One too large to count is as good as infinite:
/// no mantissa is long enough to make up for it.
fn split_exponent(text: &str) -> (&str, i64) {
    let Some((mantissa, exponent)) = text.split_once(['e', 'E']) else { return (text, 0) };
    let endless = if exponent.starts_with('-') { i64::MIN / 4 } else { i64::MAX / 4 };
    (mantissa, exponent.parse().unwrap_or(endless).clamp(i64::MIN / 4, i64::MAX / 4))
}

/// The digits without the zeros around them, and the power of ten that they are to be taken with.
fn significant(mantissa: &str) -> Result<(u128, i64), Inexact> {
    let fraction = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let mut digits = 0_u128;
    let mut zeros = 0_u32;
    for digit in mantissa.bytes().filter_map(|byte| byte.checked_sub(b'0').filter(|digit| *digit < 10)) {
        if digit == 0 {
            zeros = zeros.saturating_add(1);
            continue;
        }
        let factor = if digits == 0 { Some(1) } else { 10_u128.checked_pow(zeros.saturating_add(1)) };
        let shifted = factor.and_then(|factor| digits.checked_mul(factor));
        digits =
            shifted.and_then(|shifted| shifted.checked_add(u128::from(digit))).ok_or(Inexact::TooLarge)?;
        zeros = 0;
    }
    let fraction = i64::try_from(fraction).unwrap_or(i64::MAX / 4);
    Ok((digits, i64::from(zeros) - fraction))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_exact_at_its_scale_or_refused() {
        assert_eq!(scaled("12.30", 2), Ok(1230));
        assert_eq!(scaled("-0", 2), Ok(0));
        assert_eq!(scaled("1e20", 0), Ok(100_000_000_000_000_000_000));
        assert_eq!(scaled("1.005", 2), Err(Inexact::BelowScale));
        assert_eq!(scaled("1.000000000000000000000000000000000000000000000", 0), Ok(1));
        assert_eq!(scaled("-1200e-2", 0), Ok(-12));
        assert_eq!(scaled("0e99999999999999999999", 0), Ok(0));
        assert_eq!(scaled("1e99999999999999999999", 0), Err(Inexact::TooLarge));
        assert_eq!(scaled("1e-99999999999999999999", 38), Err(Inexact::BelowScale));
        assert_eq!(scaled(&format!("1{}e-100", "0".repeat(100)), 0), Ok(1));
        assert_eq!(scaled(&"9".repeat(38), 0), Ok(10_i128.pow(38) - 1));
        assert_eq!(scaled(&"9".repeat(60), 0), Err(Inexact::TooLarge));
    }
}
