//! What is bad for a field, by what the field takes: a name for each, and the value as JSON text.

/// What a field takes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Takes {
    /// Not blank, up to so many characters.
    Name(usize),
    /// Any text up to so many characters without control characters.
    Text(usize),
    /// Text with line ends.
    Prose(usize),
    /// One of a few words.
    Word,
    Flag,
    Number(i64, i64),
    Url,
    Branch,
    ProjectFile,
    Repository,
    Stream,
    Version,
    /// The same, or nothing.
    DefaultVersion,
    Cron,
    Zone,
    Header,
    Arguments,
    Targets,
    Scopes,
    Ids,
    /// Kinds of events.
    Events,
    Emails,
    Email,
    /// Where a version-control server is.
    Server,
    VcsUser,
    Depot,
    MailHost,
    Time,
    Object,
    Commit,
    /// A secret up to so many bytes.
    Secret(usize),
}

type Bad = Vec<(&'static str, String)>;

fn texts(values: &[(&'static str, &str)]) -> Bad {
    values.iter().map(|(name, text)| (*name, serde_json::Value::from(*text).to_string())).collect()
}

fn raw(values: &[(&'static str, &str)]) -> Bad {
    values.iter().map(|(name, text)| (*name, (*text).to_owned())).collect()
}

fn long(characters: usize) -> (&'static str, String) {
    ("too long", format!("\"{}\"", "x".repeat(characters + 1)))
}

/// What no text is.
fn no_text() -> Bad {
    raw(&[("number", "5"), ("boolean", "true"), ("list", "[\"x\"]"), ("object", "{}")])
}

impl Takes {
    pub(super) fn bad(self) -> Bad {
        if let Takes::DefaultVersion = self {
            return Takes::Version.bad().into_iter().filter(|(name, _)| *name != "empty").collect();
        }
        let mut bad = match self {
            Takes::Flag => raw(&[("text", "\"true\""), ("number", "1"), ("list", "[]"), ("object", "{}"), ("empty text", "\"\"")]),
            Takes::Number(..) => raw(&[("text", "\"5\""), ("boolean", "true"), ("list", "[5]"), ("object", "{}"), ("fraction", "7.5")]),
            Takes::Arguments | Takes::Targets | Takes::Scopes | Takes::Ids | Takes::Events | Takes::Emails => raw(&[
                ("text", "\"x\""),
                ("number", "5"),
                ("object", "{}"),
                ("list of numbers", "[5]"),
                ("list of null", "[null]"),
                ("list of lists", "[[]]"),
            ]),
            Takes::Object => raw(&[("text", "\"x\""), ("number", "5"), ("list", "[]"), ("boolean", "false")]),
            _ => no_text(),
        };
        bad.extend(match self {
            Takes::Name(longest) => {
                let mut bad = texts(&[("empty", ""), ("blank", "   "), ("line end", "a\nb"), ("NUL", "a\0b"), ("escape", "a\u{1b}[31m")]);
                bad.push(long(longest));
                bad
            }
            Takes::Text(longest) => {
                let mut bad = texts(&[("line end", "a\nb"), ("NUL", "a\0b"), ("C1 control", "a\u{85}b")]);
                bad.push(long(longest));
                bad
            }
            Takes::Prose(longest) => {
                let mut bad = texts(&[("NUL", "a\0b"), ("bell", "a\u{7}b")]);
                bad.push(long(longest));
                bad
            }
            Takes::Word => texts(&[("empty", ""), ("unknown", "Amiga"), ("other case", "WIN64"), ("blank around", " manual ")]),
            Takes::Flag | Takes::Object | Takes::DefaultVersion => Vec::new(),
            Takes::Number(least, most) => vec![
                ("below", (least - 1).to_string()),
                ("above", (most + 1).to_string()),
                ("negative", "-1".to_owned()),
                ("huge", "99999999999999999999999".to_owned()),
                ("exponent", "1e300".to_owned()),
            ],
            Takes::Url => texts(&[
                ("empty", ""),
                ("no scheme", "builds.example/upload"),
                ("ftp", "ftp://a.example/"),
                ("file", "file:///etc/passwd"),
                ("script", "javascript:alert(1)"),
                ("public over http", "http://a.example/"),
                ("metadata of clouds", "http://169.254.169.254/latest"),
                ("user and password", "https://user:word@a.example/"),
                ("fragment", "https://a.example/#x"),
                ("space", "https://a b.example/"),
                ("line end", "https://a.example/\r\nX: y"),
                ("backslash", "https://a.example\\@b.example/"),
                ("port 0", "https://a.example:0/"),
                ("port too high", "https://a.example:65536/"),
                ("no host", "https:///x"),
                ("mapped address", "http://[::ffff:8.8.8.8]/"),
                ("letters of other scripts", "https://\u{43f}.example/"),
                ("too long", &format!("https://a.example/{}", "x".repeat(2048))),
            ]),
            Takes::Branch => texts(&[
                ("empty", ""),
                ("option", "--upload-pack=x"),
                ("dots", "a..b"),
                ("space", "a b"),
                ("slash before", "/a"),
                ("slash behind", "a/"),
                ("slashes", "a//b"),
                ("lock", "a.lock"),
                ("tilde", "a~1"),
                ("caret", "a^"),
                ("colon", "a:b"),
                ("star", "a*"),
                ("backslash", "a\\b"),
                ("reflog", "a@{1}"),
                ("at", "@"),
                ("HEAD", "HEAD"),
                ("full ref", "refs/heads/main"),
                ("hidden part", "a/.b"),
                ("line end", "a\nb"),
                ("too long", &"x".repeat(251)),
            ]),
            Takes::ProjectFile => texts(&[
                ("absolute", "/etc/A.uproject"),
                ("above", "../A.uproject"),
                ("above inside", "a/../A.uproject"),
                ("other extension", "A.txt"),
                ("no name", ".uproject"),
                ("no name in a folder", "a/.uproject"),
                ("backslash", "a\\A.uproject"),
                ("drive", "C:/A.uproject"),
                ("empty part", "a//A.uproject"),
                ("option", "-a/A.uproject"),
                ("inside .git", ".git/A.uproject"),
                ("star", "*/A.uproject"),
                ("slash behind", "A.uproject/"),
                ("NUL", "A\0.uproject"),
                ("too long", &format!("{}.uproject", "x".repeat(512))),
            ]),
            Takes::Repository => texts(&[
                ("empty", ""),
                ("no owner", "kitchen"),
                ("empty owner", "/kitchen"),
                ("empty name", "studio/"),
                ("three parts", "a/b/c"),
                ("above", "../.."),
                ("suffix", "studio/kitchen.git"),
                ("option", "-studio/kitchen"),
                ("space", "studio/kit chen"),
                ("query", "studio/kitchen?x"),
                ("URL", "https://git.example/studio/kitchen"),
                ("letters of other scripts", "studio/k\u{fc}che"),
                ("too long", &format!("studio/{}", "x".repeat(201))),
            ]),
            Takes::Stream => texts(&[("empty", ""), ("one slash", "/depot/main"), ("depot alone", "//depot"), ("wildcard", "//depot/..."), ("revision", "//depot/main@5"), ("option", "//depot/-x")]),
            Takes::Version => texts(&[
                ("empty", ""),
                ("word", "latest"),
                ("one part", "5"),
                ("four parts", "5.4.3.1"),
                ("letters", "5.x"),
                ("sign", "-5.4"),
                ("path", "../5.4"),
                ("blank around", " 5.4"),
                ("too long", &"5".repeat(65)),
            ]),
            Takes::Cron => texts(&[
                ("empty", ""),
                ("word", "nightly"),
                ("unknown shorthand", "@fortnightly"),
                ("every minute", "* * * * *"),
                ("every two minutes", "*/2 * * * *"),
                ("four fields", "0 3 * *"),
                ("six fields", "0 0 3 * * *"),
                ("minute 60", "60 3 * * *"),
                ("hour 24", "0 24 * * *"),
                ("day 0", "0 3 0 * *"),
                ("month 13", "0 3 * 13 *"),
                ("never", "0 3 31 2 *"),
                ("step 0", "*/0 3 * * *"),
                ("backwards", "0 5-3 * * *"),
                ("too long", &"0 3 * * *,".repeat(30)),
            ]),
            Takes::Zone => texts(&[("empty", ""), ("unknown", "Mars/Olympus"), ("offset", "+02:00"), ("other case", "europe/berlin"), ("path", "../UTC"), ("too long", &"x".repeat(65))]),
            Takes::Header => {
                let mut bad = texts(&[("empty", ""), ("line end", "Bearer x\r\nX: y"), ("NUL", "Bearer \0"), ("blank before", " Bearer x"), ("blank behind", "Bearer x "), ("letters of other scripts", "Bearer \u{e4}")]);
                bad.push(long(8192));
                bad
            }
            Takes::Arguments => {
                let mut bad = raw(&[
                    ("empty argument", "[\"\"]"),
                    ("no dash", "[\"cook\"]"),
                    ("line end", "[\"-a\\n-b\"]"),
                    ("NUL", "[\"-a\\u0000\"]"),
                    ("quote", "[\"-a=\\\"b\\\"\"]"),
                    ("response file", "[\"@/etc/passwd\"]"),
                    ("project of its own", "[\"-project=/etc/passwd\"]"),
                    ("archive of its own", "[\"-archivedirectory=/tmp\"]"),
                    ("other case", "[\"-ArchiveDirectory=/tmp\"]"),
                ]);
                bad.push(("too many", format!("[{}]", vec!["\"-a\""; 33].join(","))));
                bad.push(("too long", format!("[\"-{}\"]", "x".repeat(5000))));
                bad
            }
            Takes::Targets => {
                let mut bad = raw(&[
                    ("no plugin", "[{}]"),
                    ("plugin of a number", "[{\"plugin\": 5}]"),
                    ("unknown plugin", "[{\"plugin\": \"teleport\"}]"),
                    ("no url", "[{\"plugin\": \"custom-deploy\"}]"),
                    ("bad url", "[{\"plugin\": \"custom-deploy\", \"config\": {\"url\": \"ftp://a.example\"}}]"),
                    ("config of text", "[{\"plugin\": \"custom-deploy\", \"config\": \"x\"}]"),
                    ("secrets of a list", "[{\"plugin\": \"custom-deploy\", \"config\": {\"url\": \"https://a.example\"}, \"secrets\": [\"x\"]}]"),
                    ("secret of a number", "[{\"plugin\": \"custom-deploy\", \"config\": {\"url\": \"https://a.example\"}, \"secrets\": {\"authorization\": 5}}]"),
                ]);
                bad.push(("too many", format!("[{}]", ["{\"plugin\": \"custom-deploy\", \"config\": {\"url\": \"https://a.example\"}}"; 9].join(","))));
                bad.push(("large config", format!("[{{\"plugin\": \"custom-deploy\", \"config\": {{\"url\": \"https://a.example\", \"x\": \"{}\"}}}}]", "x".repeat(17_000))));
                bad
            }
            Takes::Scopes => raw(&[("empty", "[]"), ("unknown", "[\"everything\"]"), ("other case", "[\"READ\"]"), ("too many", "[\"read\",\"read\",\"read\",\"read\",\"read\"]")]),
            Takes::Events => {
                let mut bad = raw(&[("empty", "[]"), ("unknown", "[\"build.exploded\"]"), ("other case", "[\"Build.Failed\"]"), ("wildcard", "[\"build.*\"]")]);
                bad.push(("too many", format!("[{}]", ["\"build.failed\""; 12].join(","))));
                bad
            }
            Takes::Server => {
                let mut bad = texts(&[
                    ("empty", ""),
                    ("port alone", "1666"),
                    ("no port", "ssl:vcs"),
                    ("port 0", "ssl:vcs:0"),
                    ("port too high", "ssl:vcs:65536"),
                    ("command", "rsh:sh -c x"),
                    ("other scheme", "https://vcs:1666"),
                    ("option", "-x:1666"),
                    ("space", "ssl:v cs:1666"),
                    ("line end", "ssl:vcs:1666\nX"),
                    ("user", "ssl:ada@vcs:1666"),
                ]);
                bad.push(long(300));
                bad
            }
            Takes::VcsUser => {
                let mut bad = texts(&[("empty", ""), ("space", "a b"), ("option", "-x"), ("revision", "a@1"), ("wildcard", "a*"), ("NUL", "a\0"), ("wide space", "a\u{2003}b")]);
                bad.push(long(256));
                bad
            }
            Takes::Depot => {
                let mut bad = texts(&[("empty", ""), ("slashes alone", "//"), ("a stream", "//depot/main"), ("wildcard", "..."), ("above", ".."), ("option", "-x"), ("space", "a b"), ("NUL", "a\0b")]);
                bad.push(long(128));
                bad
            }
            Takes::MailHost => texts(&[("empty", ""), ("space", "mail example"), ("URL", "smtp://mail.example"), ("line end", "mail.example\r\nX"), ("with a port", "mail.example:25"), ("too long", &"a".repeat(254))]),
            Takes::Emails => {
                let mut bad = raw(&[("no address", "[\"ada\"]"), ("line end", "[\"ada@a.example\\r\\nBcc: b@b.example\"]"), ("two in one", "[\"ada@a.example, b@b.example\"]")]);
                bad.push(("too many", format!("[{}]", ["\"ada@a.example\""; 200].join(","))));
                bad
            }
            Takes::Email => {
                let mut bad = texts(&[("empty", ""), ("no host", "ada@"), ("nobody", "@a.example"), ("two", "ada@a.example,b@b.example"), ("line end", "ada@a.example\r\nBcc: b@b.example"), ("space", "a da@a.example")]);
                bad.push(long(254));
                bad
            }
            Takes::Ids => {
                let mut bad = raw(&[
                    ("malformed", "[\"no-id\"]"),
                    ("unknown", "[\"0000000000000000000000zz\"]"),
                    ("upper case", "[\"0000000000000000000000ZZ\"]"),
                    ("too short", "[\"0000000000000000000000z\"]"),
                ]);
                bad.push(("too many", format!("[{}]", vec!["\"0000000000000000000000zz\""; 101].join(","))));
                bad
            }
            Takes::Time => texts(&[("empty", ""), ("word", "tomorrow"), ("no zone", "2030-01-01T00:00:00"), ("date alone", "2030-01-01"), ("day 32", "2030-01-32T00:00:00Z"), ("past", "2001-01-01T00:00:00Z")]),
            Takes::Commit => texts(&[("too short", "abc123"), ("letters", "xyzxyzxyz"), ("option", "--all---"), ("branch", "main"), ("too long", &"a".repeat(65))]),
            Takes::Secret(longest) => vec![("too long", format!("\"{}\"", "x".repeat(longest + 1)))],
        });
        bad
    }
}
