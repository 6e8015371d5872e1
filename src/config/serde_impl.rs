//! TOML, and serde for programs that keep a configuration inside their own.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use serde::ser::{Serialize, Serializer};
use toml::Spanned;

use super::{Config, ConfigError};

pub(super) fn merge_toml(mut config: Config, text: &str) -> Result<Config, ConfigError> {
    let line_of = |at: usize| text.as_bytes().iter().take(at).filter(|&&byte| byte == b'\n').count() + 1;
    let table: BTreeMap<Spanned<String>, Spanned<toml::Value>> = toml::from_str(text).map_err(|error| {
        // The parser's message may have several lines; ours has one.
        let message = error.message().lines().collect::<Vec<_>>().join("; ");
        ConfigError::Toml { line: error.span().map(|span| line_of(span.start)), message }
    })?;
    for (key, value) in table {
        let line = line_of(key.span().start);
        let name = key.into_inner();
        let text = scalar_text(value.into_inner()).ok_or_else(|| ConfigError::Toml {
            line: Some(line),
            message: format!("{name:?}: expected a string, a number or a boolean"),
        })?;
        config.set(&name, &text).map_err(|error| error.at(format!("line {line}")))?;
    }
    Ok(config)
}

fn scalar_text(value: toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(value) => Some(value.to_string()),
        toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => None,
    }
}

/// A map of all options to their text.
impl Serialize for Config {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.pairs())
    }
}

/// The defaults with what the map sets; values are strings, whole numbers or booleans.
impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = BTreeMap::<String, Scalar>::deserialize(deserializer)?;
        let mut config = Config::default();
        for (name, Scalar(text)) in map {
            config.set(&name, &text).map_err(D::Error::custom)?;
        }
        Ok(config)
    }
}

/// The text of a string, number or boolean.
struct Scalar(String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;

        impl Visitor<'_> for ScalarVisitor {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a number or a boolean")
            }

            fn visit_str<E>(self, value: &str) -> Result<Scalar, E> {
                Ok(Scalar(value.to_owned()))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }
        }

        deserializer.deserialize_any(ScalarVisitor)
    }
}
