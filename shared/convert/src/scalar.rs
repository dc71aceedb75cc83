//! One JSON scalar into one column, or the rule that it breaks.

use std::borrow::Cow;

use crate::civil::{self, FRACTION_RULE, Zone};
use crate::column::{Column, DecimalType, Field, Fixed, Texts, Unit, Values};
use crate::cursor::{Cursor, number_length};
use crate::error::{BadRecordClass, Read};
use crate::exact::{Inexact, scaled};

const NUMBERS_ONLY: &str = "only numbers are taken; a string is not converted to a number";
const STRINGS_ONLY: &str = "only strings are taken; nothing is converted to a string";
const NO_UNIT: &str = "a time is written as text (ISO 8601): the unit of a number can't be guessed";
const BASE64: &str = "bytes are written as a string of standard base64 with padding";
const FULL: &str = "the column holds as many bytes as one batch can";
const RANGE: &str = "the number is out of the type's range";
const WHOLE: &str = "the number has a fraction, which is not cut off";

impl Field {
    /// Reads the value that follows, white space before it included.
    #[inline]
    pub(crate) fn read(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
        cursor.space();
        if cursor.peek() == Some(b'n') {
            return self.read_null(cursor);
        }
        match &mut self.column {
            Column::Struct(column) => column.read(cursor, &self.type_name),
            Column::List(column) => column.read(cursor, &self.type_name),
            Column::Map(column) => column.read(cursor, &self.type_name),
            scalar => scalar.read_scalar(cursor, &self.type_name),
        }
    }

    fn read_null(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
        let start = cursor.position();
        cursor.null()?;
        if self.required {
            let rule = "a required column takes no null".into();
            return Err(cursor.refused(BadRecordClass::MissingRequired, start, &self.type_name, rule));
        }
        self.column.push_null();
        Ok(())
    }
}

impl Column {
    fn read_scalar(&mut self, cursor: &mut Cursor<'_>, name: &str) -> Read<()> {
        match self {
            Self::Boolean(column) => match cursor.boolean() {
                Some(value) => {
                    column.push(Some(value));
                    Ok(())
                }
                None => Err(cursor.wrong_type(name, "only true and false are taken")),
            },
            Self::Int(column) => read_int(column, cursor, name),
            Self::Long(column) => read_int(column, cursor, name),
            Self::Float(column) => read_float(column, cursor, name),
            Self::Double(column) => read_float(column, cursor, name),
            Self::Decimal(column, decimal) => read_decimal(column, *decimal, cursor, name),
            Self::Date(column) => read_text(cursor, name, NO_UNIT, |text| {
                column.push(civil::date(text).map_err(bad_format)?);
                Ok(())
            }),
            Self::Time(column) => read_text(cursor, name, NO_UNIT, |text| {
                let nanos = civil::time(text).map_err(bad_format)?;
                column.push(whole_micros(nanos)?);
                Ok(())
            }),
            Self::Timestamp(column, unit, zone) => read_text(cursor, name, NO_UNIT, |text| {
                column.push(timestamp(text, *unit, *zone)?);
                Ok(())
            }),
            Self::String(column) => {
                read_text(cursor, name, STRINGS_ONLY, |text| full(column.push(text.as_bytes())))
            }
            Self::Uuid(column) => read_text(cursor, name, STRINGS_ONLY, |text| {
                column.push(uuid(text)?.as_bytes());
                Ok(())
            }),
            Self::Fixed(column) => read_text(cursor, name, BASE64, |text| read_fixed(column, text)),
            Self::Binary(column) => read_text(cursor, name, BASE64, |text| read_binary(column, text)),
            // These are read where they are told apart from scalars.
            Self::Struct(_) | Self::List(_) | Self::Map(_) => Ok(()),
        }
    }
}

/// A class and the rule that is broken.
type Broken = (BadRecordClass, Cow<'static, str>);

fn bad_format(rule: &'static str) -> Broken {
    let class = match rule {
        FRACTION_RULE => BadRecordClass::NotExact,
        _ => BadRecordClass::BadFormat,
    };
    (class, rule.into())
}

fn full(added: bool) -> Result<(), Broken> {
    if added { Ok(()) } else { Err((BadRecordClass::OutOfRange, FULL.into())) }
}

/// A whole-number column's type.
trait Whole: Copy + Default + std::str::FromStr + TryFrom<i128> {}
impl Whole for i32 {}
impl Whole for i64 {}

#[inline]
fn read_int<T: Whole>(column: &mut Values<T>, cursor: &mut Cursor<'_>, name: &str) -> Read<()> {
    let start = cursor.position();
    if !matches!(cursor.peek(), Some(b'-' | b'0'..=b'9')) {
        return Err(cursor.wrong_type(name, NUMBERS_ONLY));
    }
    let number = cursor.number()?;
    if number.plain
        && let Ok(value) = number.text.parse()
    {
        column.push(value);
        return Ok(());
    }
    let broken = match scaled(number.text, 0).map(T::try_from) {
        Ok(Ok(value)) => {
            column.push(value);
            return Ok(());
        }
        Ok(Err(_)) | Err(Inexact::TooLarge) => (BadRecordClass::OutOfRange, RANGE),
        Err(Inexact::BelowScale) => (BadRecordClass::NotExact, WHOLE),
    };
    Err(cursor.refused(broken.0, start, name, broken.1.into()))
}

/// A floating-point column's type.
trait Float: Copy + Default + std::str::FromStr + Into<f64> {}
impl Float for f32 {}
impl Float for f64 {}

fn read_float<T: Float>(column: &mut Values<T>, cursor: &mut Cursor<'_>, name: &str) -> Read<()> {
    let start = cursor.position();
    if !matches!(cursor.peek(), Some(b'-' | b'0'..=b'9')) {
        return Err(cursor.wrong_type(name, NUMBERS_ONLY));
    }
    let text = cursor.number()?.text;
    // The standard library rounds correctly and takes all that JSON's grammar does.
    let value: Option<T> = text.parse().ok();
    let lost = |value: &T| {
        let value: f64 = (*value).into();
        value.is_infinite() || (value == 0.0 && !is_zero(text))
    };
    match value.filter(|value| !lost(value)) {
        Some(value) => {
            column.push(value);
            Ok(())
        }
        None => Err(cursor.refused(BadRecordClass::OutOfRange, start, name, RANGE.into())),
    }
}

fn is_zero(number: &str) -> bool {
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    !mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
}

fn read_decimal(
    column: &mut Values<i128>,
    decimal: DecimalType,
    cursor: &mut Cursor<'_>,
    name: &str,
) -> Read<()> {
    let start = cursor.position();
    let text = match cursor.peek() {
        Some(b'"') => cursor.string()?,
        Some(b'-' | b'0'..=b'9') => Cow::Borrowed(cursor.number()?.text),
        _ => return Err(cursor.wrong_type(name, "only numbers and strings that hold one are taken")),
    };
    match decimal_value(&text, decimal) {
        Ok(value) => {
            column.push(value);
            Ok(())
        }
        Err((class, rule)) => Err(cursor.refused(class, start, name, rule)),
    }
}

fn decimal_value(text: &str, decimal: DecimalType) -> Result<i128, Broken> {
    if !number_length(text.as_bytes()).is_ok_and(|(length, _)| length == text.len()) {
        return Err((BadRecordClass::BadFormat, "the string is not a number".into()));
    }
    let value = scaled(text, decimal.scale).map_err(|inexact| {
        let rule = match inexact {
            Inexact::TooLarge => "the number has more digits than the precision allows",
            Inexact::BelowScale => {
                "the number has more digits after the point than the scale; it is not rounded"
            }
        };
        (inexact.class(), rule.into())
    })?;
    if value.unsigned_abs() < 10_u128.pow(decimal.precision) {
        return Ok(value);
    }
    Err((BadRecordClass::OutOfRange, "the number has more digits than the precision allows".into()))
}

/// Reads a string and hands it on. `other` is the rule for what is no string.
#[inline]
fn read_text(
    cursor: &mut Cursor<'_>,
    name: &str,
    other: &'static str,
    take: impl FnOnce(&str) -> Result<(), Broken>,
) -> Read<()> {
    let start = cursor.position();
    if cursor.peek() != Some(b'"') {
        return Err(cursor.wrong_type(name, other));
    }
    let text = cursor.string()?;
    take(&text).map_err(|(class, rule)| cursor.refused(class, start, name, rule))
}

fn whole_micros(nanos: i64) -> Result<i64, Broken> {
    if nanos % 1000 == 0 { Ok(nanos / 1000) } else { Err(bad_format(FRACTION_RULE)) }
}

fn timestamp(text: &str, unit: Unit, zone: Zone) -> Result<i64, Broken> {
    let moment = civil::timestamp(text, zone).map_err(bad_format)?;
    match unit {
        Unit::Micros => moment.micros().ok_or_else(|| bad_format(FRACTION_RULE)),
        Unit::Nanos => moment
            .nanos()
            .ok_or((BadRecordClass::OutOfRange, "nanoseconds reach from 1677-09-21 to 2262-04-11".into())),
    }
}

fn uuid(text: &str) -> Result<uuid::Uuid, Broken> {
    let hyphenated = text.len() == uuid::fmt::Hyphenated::LENGTH;
    let uuid = uuid::Uuid::try_parse(text).ok().filter(|_| hyphenated);
    uuid.ok_or((BadRecordClass::BadFormat, "a uuid is written as 8-4-4-4-12 hexadecimal digits".into()))
}

fn read_fixed(column: &mut Fixed, text: &str) -> Result<(), Broken> {
    let bytes = base64_simd::STANDARD.decode_to_vec(text).map_err(|_| bad_format(BASE64))?;
    if bytes.len() != column.width {
        let rule = format!("{} bytes are taken, not {}", column.width, bytes.len());
        return Err((BadRecordClass::BadFormat, rule.into()));
    }
    column.push(&bytes);
    Ok(())
}

fn read_binary(column: &mut Texts<i64>, text: &str) -> Result<(), Broken> {
    let decoded = base64_simd::STANDARD.decode_append(text, &mut column.bytes);
    decoded.map_err(|_| bad_format(BASE64))?;
    full(column.end_value())
}
