//! What can be wrong with a configuration, and where.

use std::fmt;
use std::path::PathBuf;

/// Where a value was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In the configuration file.
    File {
        /// The file.
        path: PathBuf,
        /// From 1; 0 for the file as a whole.
        line: usize,
    },
    /// In an environment variable of this name.
    Environment(String),
    /// In this flag of the command line.
    Flag(String),
    /// Nowhere: the built-in default.
    Default,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File { path, line: 0 } => write!(f, "{}", path.display()),
            Place::File { path, line } => write!(f, "{}:{line}", path.display()),
            Place::Environment(name) => write!(f, "environment variable {name}"),
            Place::Flag(name) => write!(f, "{name}"),
            Place::Default => f.write_str("default"),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What, and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Default => f.write_str(&self.message),
            place => write!(f, "{place}: {}", self.message),
        }
    }
}

/// Everything that is wrong, in the order in which a person reads the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// The known name nearest to what was typed, if one is near enough to be meant.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_ascii_lowercase();
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    known
        .into_iter()
        .map(|name| {
            // A key in the wrong section is as easy to mean as a misspelt one.
            let misplaced = usize::from(last(name) != last(&typed)) * usize::MAX / 2 + 1;
            (distance(&typed, name).min(misplaced), name)
        })
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, name)| *distance <= 2.max(name.len() / 4))
        .map(|(_, name)| name)
}

/// How many letters have to be changed, added, removed or swapped with their neighbour.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().take(80).collect(), right.chars().collect());
    let mut rows: [Vec<usize>; 3] = [Vec::new(), Vec::new(), (0..=right.len()).collect()];
    for (i, l) in left.iter().enumerate() {
        rows.rotate_left(1);
        let mut row = vec![i + 1];
        for (j, r) in right.iter().enumerate() {
            let mut best = (rows[1][j] + usize::from(l != r)).min(rows[1][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *l == right[j - 1] && left[i - 1] == *r {
                best = best.min(rows[0][j - 1] + 1);
            }
            row.push(best);
        }
        rows[2] = row;
    }
    rows[2][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant() {
        let known = ["listen", "executor.slots", "executor.timeout_minutes", "tls.key"];
        assert_eq!(nearest("executor.slot", known), Some("executor.slots"));
        assert_eq!(nearest("exectuor.slots", known), Some("executor.slots"));
        assert_eq!(nearest("slots", known), Some("executor.slots"));
        assert_eq!(nearest("Listen", known), Some("listen"));
        assert_eq!(nearest("wholly.different", known), None);
        assert_eq!(distance("ab", "ba"), 1);
    }
}
