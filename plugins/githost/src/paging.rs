//! Pages: the server's by number and `Link` header, ours by an opaque cursor.

use guest_support::{Code, Problem};

/// The most that git hosts give at once.
pub const LARGEST_PAGE: u32 = 100;

/// Where the next answer begins. Written into the cursor, which a client may have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The server's page, from 1.
    pub page: u32,
    /// Its size; page numbers mean nothing without it.
    pub size: u32,
    /// Entries of the page that were already given.
    pub skip: u32,
}

impl Position {
    /// The beginning, with pages of `size`.
    pub fn start(size: u32) -> Self {
        Position { page: 1, size: size.clamp(1, LARGEST_PAGE), skip: 0 }
    }

    /// The place a cursor names, or the beginning.
    pub fn from_cursor(cursor: Option<&str>, size: u32) -> Result<Self, Problem> {
        let Some(cursor) = cursor else { return Ok(Position::start(size)) };
        let mut numbers = cursor.split('.').map(|number| number.parse::<u32>().ok());
        match (numbers.next().flatten(), numbers.next().flatten(), numbers.next().flatten(), numbers.next()) {
            (Some(page @ 1..=1_000_000), Some(size @ 1..=LARGEST_PAGE), Some(skip @ 0..=LARGEST_PAGE), None) => {
                Ok(Position { page, size, skip })
            }
            _ => Err(Problem::new(Code::InvalidArgument, "the cursor is not one of this git host's")),
        }
    }

    /// As it is given out.
    pub fn to_cursor(self) -> String {
        format!("{}.{}.{}", self.page, self.size, self.skip)
    }

    /// The server's next page.
    pub fn next_page(self) -> Self {
        Position { page: self.page + 1, skip: 0, ..self }
    }
}

/// Whether the server has a page behind this one. Without a `Link` header a full page means that there may be one.
pub fn has_next(link: Option<&str>, entries: usize, size: u32) -> bool {
    match link {
        Some(link) => {
            link.split(',').any(|part| part.split(';').skip(1).any(|parameter| matches!(parameter.trim(), "rel=\"next\"" | "rel=next")))
        }
        None => entries >= size as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::{Position, has_next};

    #[test]
    fn a_cursor_leads_back_to_its_place() {
        let position = Position { page: 3, size: 25, skip: 7 };
        assert_eq!(Position::from_cursor(Some(&position.to_cursor()), 100).unwrap(), position);
        assert_eq!(Position::from_cursor(None, 500).unwrap(), Position { page: 1, size: 100, skip: 0 });
        assert_eq!(Position::from_cursor(None, 0).unwrap().size, 1);
    }

    #[test]
    fn a_changed_cursor_is_refused() {
        for cursor in
            ["", "1", "1.2", "0.10.0", "1.0.0", "1.101.0", "1.10.101", "1.10.0.0", "-1.10.0", "1.10.x", "99999999999.1.0", "https://evil/"]
        {
            assert!(Position::from_cursor(Some(cursor), 10).is_err(), "{cursor}");
        }
    }

    #[test]
    fn the_link_header_says_whether_there_is_more() {
        let link =
            r#"<https://api/x?page=1>; rel="prev", <https://api/x?page=3&per_page=2>; rel="next", <https://api/x?page=9>; rel="last""#;
        assert!(has_next(Some(link), 0, 10));
        assert!(!has_next(Some(r#"<https://api/next?page=1>; rel="first""#), 10, 10));
        assert!(has_next(None, 10, 10));
        assert!(!has_next(None, 9, 10));
    }
}
