//! The sizes that a program runs with, as `name=value` words: the same line starts every contestant.

use std::collections::BTreeMap;
use std::fmt;

/// Sizes by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Params(BTreeMap<String, u64>);

impl Params {
    /// From pairs.
    pub(crate) fn of(pairs: &[(&str, u64)]) -> Params {
        Params(pairs.iter().map(|&(k, v)| (k.to_owned(), v)).collect())
    }

    /// From words of a command line.
    ///
    /// # Errors
    /// The word that is no `name=number`.
    pub(crate) fn parse(words: &[String]) -> Result<Params, String> {
        let pair = |w: &String| {
            let (name, value) = w.split_once('=')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        words
            .iter()
            .map(|w| pair(w).ok_or_else(|| format!("{w:?} is not of the form name=number")))
            .collect::<Result<_, _>>()
            .map(Params)
    }

    /// The value of a size.
    ///
    /// # Errors
    /// The name of what is missing.
    pub(crate) fn get(&self, name: &str) -> Result<u64, String> {
        self.0.get(name).copied().ok_or_else(|| format!("the size {name}=… is missing"))
    }

    /// With a size set or replaced.
    pub(crate) fn with(mut self, name: &str, value: u64) -> Params {
        self.0.insert(name.to_owned(), value);
        self
    }

    /// The words that [`Params::parse`] reads.
    pub(crate) fn words(&self) -> Vec<String> {
        self.0.iter().map(|(k, v)| format!("{k}={v}")).collect()
    }
}

impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back_as_they_were_written() {
        let params = Params::of(&[("depth", 18), ("threads", 2)]).with("depth", 12);
        assert_eq!(Params::parse(&params.words()), Ok(params.clone()));
        assert_eq!((params.get("depth"), params.get("threads")), (Ok(12), Ok(2)));
        assert!(params.get("ms").unwrap_err().contains("ms="));
        assert!(Params::parse(&["depth".into()]).unwrap_err().contains("depth"));
        assert!(Params::parse(&["depth=-1".into()]).is_err());
    }
}
