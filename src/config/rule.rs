//! What the value of a key may be, and where it goes.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::{Config, size};

/// A value as it was typed, before its key says what it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Raw {
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number.
    Integer(i128),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Raw>),
    /// Something that no key takes, by the name people know it by.
    Other(&'static str),
}

impl Raw {
    /// Reads the text of an environment variable or a flag as `rule` would have it in the file.
    pub fn from_text(rule: &Rule, text: &str) -> Raw {
        match rule {
            Rule::Flag(_) => match text {
                "true" | "1" => Raw::Boolean(true),
                "false" | "0" => Raw::Boolean(false),
                _ => Raw::Text(text.to_owned()),
            },
            Rule::Number { .. } => text.trim().parse().map_or_else(|_| Raw::Text(text.to_owned()), Raw::Integer),
            Rule::Texts { .. } | Rule::Paths(_) | Rule::EachTexts(_) if text.is_empty() => Raw::List(Vec::new()),
            Rule::Texts { .. } | Rule::Paths(_) | Rule::EachTexts(_) => {
                Raw::List(text.split(',').map(|item| Raw::Text(item.trim().to_owned())).collect())
            }
            Rule::Size(_) | Rule::Text { .. } | Rule::Choice { .. } | Rule::Path(_) | Rule::EachText(_) | Rule::EachPath(_) => {
                Raw::Text(text.to_owned())
            }
        }
    }

    /// For people, short.
    pub fn shown(&self) -> String {
        match self {
            Raw::Boolean(value) => value.to_string(),
            Raw::Integer(value) => value.to_string(),
            Raw::Text(text) if text.chars().count() > 60 => format!("{:?}...", text.chars().take(60).collect::<String>()),
            Raw::Text(text) => format!("{text:?}"),
            Raw::List(items) => format!("[{}]", items.iter().take(8).map(Raw::shown).collect::<Vec<_>>().join(", ")),
            Raw::Other(kind) => (*kind).to_owned(),
        }
    }
}

/// What a value may be, with the place in [`Config`] that it goes to.
pub enum Rule {
    /// `true` or `false`.
    Flag(fn(&mut Config, bool)),
    /// A whole number.
    Number {
        /// Both ends allowed.
        range: RangeInclusive<u64>,
        /// Stores it.
        set: fn(&mut Config, u64),
    },
    /// An amount of bytes.
    Size(fn(&mut Config, u64)),
    /// Text that `check` accepts; its error finishes the sentence "must be ...".
    Text {
        /// Says what it must be, if it isn't.
        check: fn(&str) -> Result<(), &'static str>,
        /// Stores it.
        set: fn(&mut Config, String),
    },
    /// One word of a few.
    Choice {
        /// The words.
        allowed: &'static [&'static str],
        /// Stores it.
        set: fn(&mut Config, &str),
    },
    /// A file or directory; made absolute before it is stored.
    Path(fn(&mut Config, PathBuf)),
    /// Several texts.
    Texts {
        /// Says what each must be, if it isn't.
        check: fn(&str) -> Result<(), &'static str>,
        /// Stores them.
        set: fn(&mut Config, Vec<String>),
    },
    /// Several files or directories.
    Paths(fn(&mut Config, Vec<PathBuf>)),
    /// Text of one entry of a list of tables.
    EachText(fn(&mut Config, usize, String)),
    /// Path of one entry of a list of tables.
    EachPath(fn(&mut Config, usize, PathBuf)),
    /// Several texts of one entry of a list of tables.
    EachTexts(fn(&mut Config, usize, Vec<String>)),
}

impl Rule {
    /// Checks the value and stores it. Relative paths begin at `base`. The error finishes the sentence that begins with the key.
    pub fn apply(&self, config: &mut Config, index: usize, raw: &Raw, base: &Path) -> Result<(), String> {
        let wrong = || format!("must be {}, not {}", self.describe(), raw.shown());
        match (self, raw) {
            (Rule::Flag(set), Raw::Boolean(value)) => set(config, *value),
            (Rule::Number { range, set }, Raw::Integer(value)) => {
                set(config, u64::try_from(*value).ok().filter(|value| range.contains(value)).ok_or_else(wrong)?);
            }
            (Rule::Size(set), Raw::Text(text)) => set(config, size::parse(text).ok_or_else(wrong)?),
            (Rule::Size(set), Raw::Integer(value)) => set(config, u64::try_from(*value).map_err(|_| wrong())?),
            (Rule::Text { check, set }, Raw::Text(text)) => {
                check(text).map_err(|what| format!("must be {what}, not {}", raw.shown()))?;
                set(config, text.clone());
            }
            (Rule::Choice { allowed, set }, Raw::Text(text)) if allowed.contains(&text.as_str()) => set(config, text),
            (Rule::Path(set), Raw::Text(text)) => set(config, path(base, text)?),
            (Rule::Texts { check, set }, Raw::List(items)) => {
                let texts = texts(items).ok_or_else(wrong)?;
                for text in &texts {
                    check(text).map_err(|what| format!("must hold {what}, not {text:?}"))?;
                }
                set(config, texts);
            }
            (Rule::Paths(set), Raw::List(items)) => {
                let texts = texts(items).ok_or_else(wrong)?;
                set(config, texts.iter().map(|text| path(base, text)).collect::<Result<_, _>>()?);
            }
            (Rule::EachText(set), Raw::Text(text)) if !text.is_empty() => set(config, index, text.clone()),
            (Rule::EachPath(set), Raw::Text(text)) => set(config, index, path(base, text)?),
            (Rule::EachTexts(set), Raw::List(items)) => set(config, index, texts(items).ok_or_else(wrong)?),
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// What a value must be, as the end of a sentence.
    pub fn describe(&self) -> String {
        match self {
            Rule::Flag(_) => "true or false".into(),
            Rule::Number { range, .. } => format!("a whole number from {} to {}", range.start(), range.end()),
            Rule::Size(_) => "an amount of bytes such as \"50 GB\" or \"512 MiB\"".into(),
            Rule::Text { .. } => "text".into(),
            Rule::EachText(_) => "a text that is not empty".into(),
            Rule::Choice { allowed, .. } => format!("one of {}", allowed.join(", ")),
            Rule::Path(_) | Rule::EachPath(_) => "a path".into(),
            Rule::Texts { .. } | Rule::EachTexts(_) => "a list of texts".into(),
            Rule::Paths(_) => "a list of paths".into(),
        }
    }

    /// Whether the key belongs to an entry of a list of tables.
    pub fn is_each(&self) -> bool {
        matches!(self, Rule::EachText(_) | Rule::EachPath(_) | Rule::EachTexts(_))
    }
}

fn texts(items: &[Raw]) -> Option<Vec<String>> {
    items
        .iter()
        .map(|item| match item {
            Raw::Text(text) => Some(text.clone()),
            Raw::Boolean(_) | Raw::Integer(_) | Raw::List(_) | Raw::Other(_) => None,
        })
        .collect()
}

fn path(base: &Path, text: &str) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains('\0') {
        return Err("must be a path, not an empty text; leave the key out instead".into());
    }
    std::path::absolute(base.join(text)).map_err(|_| "must be a path".to_owned())
}
