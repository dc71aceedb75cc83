//! Names of partition fields, as Avro takes them.
//!
//! A partition field may be named `inner.n` or `page url`. Avro has no such names, and a manifest that
//! had one could not be read by anybody. Iceberg's libraries write a name of the same look instead; readers go
//! by the fields' ids.

use std::fmt::Write;

use iceberg::spec::PartitionSpec;
use serde_json::Value;

/// `spec` with names that Avro takes. It goes by its JSON form, since its builder refuses what old tables
/// may have, such as two dropped fields of one column.
pub(super) fn in_avro(spec: &PartitionSpec) -> iceberg::Result<PartitionSpec> {
    if spec.fields().iter().all(|field| in_letters(&field.name) == field.name) {
        return Ok(spec.clone());
    }
    let mut json = serde_json::to_value(spec)?;
    for field in json.get_mut("fields").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(Value::String(name)) = field.get_mut("name") {
            *name = in_letters(name);
        }
    }
    Ok(serde_json::from_value(json)?)
}

/// Letters, digits and underscores, no digit first; all else as its code.
fn in_letters(name: &str) -> String {
    let mut letters = String::with_capacity(name.len());
    for (index, c) in name.chars().enumerate() {
        if c.is_ascii_digit() && index == 0 {
            letters.push('_');
        }
        if c.is_ascii_alphanumeric() || c == '_' {
            letters.push(c);
        } else {
            let _ = write!(letters, "_x{:X}", u32::from(c));
        }
    }
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_letters_digits_and_underscores() {
        for (name, letters) in [
            ("ts_day", "ts_day"),
            ("inner.n", "inner_x2En"),
            ("1st", "_1st"),
            ("page url", "page_x20url"),
            ("é", "_xE9"),
        ] {
            assert_eq!(in_letters(name), letters);
        }
    }
}
