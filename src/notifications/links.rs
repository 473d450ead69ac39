//! Where messages lead: addresses of this service that a person who is signed in can open. Never a signed address of an
//! artifact: whoever reads a chat is not whoever may download.

use super::report::Link;
use crate::model::{Build, Id};

/// Makes addresses.
#[derive(Debug, Clone)]
pub(super) struct Links {
    /// `public_url`, without a slash at its end.
    base: String,
}

impl Links {
    pub(super) fn new(base: &str) -> Self {
        Links { base: base.trim_end_matches('/').to_owned() }
    }

    /// The name of the host, for what has to name where a message comes from; `otherwise` where it has none: the domain of this
    /// address of mail.
    pub(super) fn host(&self, otherwise: &str) -> String {
        let rest = self.base.split_once("://").map_or(self.base.as_str(), |(_, rest)| rest);
        let host = rest.split(['/', ':']).next().unwrap_or_default();
        let domain = otherwise.rsplit_once('@').map_or("", |(_, domain)| domain);
        let found = [host, domain].into_iter().find(|name| is_domain(name));
        found.map_or_else(|| "cookhouse.invalid".to_owned(), str::to_ascii_lowercase)
    }

    pub(super) fn build(&self, id: Id<Build>) -> String {
        format!("{}/v1/builds/{id}", self.base)
    }

    pub(super) fn of_build(&self, build: &Build) -> Vec<Link> {
        let page = self.build(build.id);
        let mut links = vec![Link { label: "Build", url: page.clone() }];
        if build.log_lines > 0 && build.log_deleted_at.is_none() {
            links.push(Link { label: "Log", url: format!("{page}/log") });
        }
        if build.kept_artifact().is_some() {
            links.push(Link { label: "Artifact", url: format!("{page}/download") });
        }
        links
    }

    pub(super) fn of_builds(&self) -> Vec<Link> {
        vec![Link { label: "Builds", url: format!("{}/v1/builds", self.base) }]
    }
}

fn is_domain(name: &str) -> bool {
    name.contains('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
        && name.parse::<std::net::IpAddr>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_base_is_a_name_that_mail_can_carry() {
        for (base, host) in [
            ("https://builds.studio.lan", "builds.studio.lan"),
            ("https://Builds.Studio.lan:8443/", "builds.studio.lan"),
            ("http://127.0.0.1:8080", "studio.test"),
            ("http://[::1]:8080", "studio.test"),
            ("http://localhost:8080", "studio.test"),
        ] {
            assert_eq!(Links::new(base).host("builds@studio.test"), host);
        }
        assert_eq!(Links::new("http://localhost").host("root@localhost"), "cookhouse.invalid");
        assert_eq!(Links::new("http://localhost").host("a@b.test\r\nX: y"), "cookhouse.invalid");
    }
}
