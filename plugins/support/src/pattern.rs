//! Glob patterns on paths: `*` and `?` stay inside one part, `**` spans parts. Letters match in either case, because the file
//! systems that Unreal projects come from do not tell them apart.

/// Whether the pattern matches the whole path.
pub fn matches(pattern: &str, path: &str) -> bool {
    let pattern: Vec<&str> = pattern.split('/').collect();
    let path: Vec<&str> = path.split('/').collect();
    // One row per path part: which beginnings of the pattern fit. Linear in pattern x path, whatever the pattern.
    let mut fits = vec![false; pattern.len() + 1];
    fits[0] = true;
    open(&pattern, &mut fits);
    for part in path {
        let mut next = vec![false; pattern.len() + 1];
        for (index, piece) in pattern.iter().enumerate() {
            if !fits[index] {
                continue;
            }
            if *piece == "**" {
                next[index] = true;
            } else if part_matches(piece, part) {
                next[index + 1] = true;
            }
        }
        open(&pattern, &mut next);
        fits = next;
    }
    fits[pattern.len()]
}

/// `**` may stand for nothing.
fn open(pattern: &[&str], fits: &mut [bool]) {
    for index in 0..pattern.len() {
        if fits[index] && pattern[index] == "**" {
            fits[index + 1] = true;
        }
    }
}

fn part_matches(pattern: &str, part: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let part: Vec<char> = part.chars().collect();
    let (mut at, mut place) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while place < part.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || same(*wanted, part[place]) => {
                at += 1;
                place += 1;
            }
            _ => match star {
                Some((star_at, star_place)) => {
                    star = Some((star_at, star_place + 1));
                    at = star_at + 1;
                    place = star_place + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|character| *character == '*')
}

fn same(one: char, other: char) -> bool {
    one == other || one.to_lowercase().eq(other.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        for (pattern, path, expected) in [
            ("**/*.uproject", "Game.uproject", true),
            ("**/*.uproject", "a/b/c/Game.UPROJECT", true),
            ("**/*.uproject", "a/Game.uproject/x", false),
            ("**/*.uproject", "a/Game.uproject.bak", false),
            ("*.uproject", "a/Game.uproject", false),
            ("a/**/z", "a/z", true),
            ("a/**/z", "a/b/c/z", true),
            ("a/**/z", "b/z", false),
            ("**", "anything/at/all", true),
            ("?.txt", "ä.txt", true),
            ("?.txt", ".txt", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} on {path}");
        }
    }

    #[test]
    fn a_pattern_made_to_be_slow_is_not() {
        let pattern = format!("{}b", "*a".repeat(60));
        assert!(!matches(&pattern, &"a".repeat(4000)));
        assert!(!matches(&format!("{}b", "**/".repeat(200)), &"a/".repeat(2000)));
    }
}
