//! The tool `git` as a plugin may use it: hardened, because the server, the repository and the files that a build
//! left in the workspace are all somebody else's (source-control guests call it through the interface `command`).
//!
//! What a guest says, and nothing else, is:
//!
//! - arguments: a sub-command of the table in [`arguments`], its listed options (`--option=value` in one word), and
//!   values that do not begin with `-`; no global option before the sub-command;
//! - `directory`: a folder of its workspace; the repository is that folder's own `.git`;
//! - environment `COOKHOUSE_GIT_REMOTE`: the repository's URL, without credentials and of a granted origin. It becomes
//!   the remote `origin` (also of `lfs`), so that `fetch origin …`, `lfs fetch origin …` work without any stored
//!   configuration. A URL may also be given to `fetch` and `ls-remote` directly;
//! - environment `COOKHOUSE_GIT_USERNAME` (default `x-access-token`) and, by `secret-env`, `COOKHOUSE_GIT_PASSWORD`:
//!   answered by our askpass to the granted origins, and to no other. Askpass asks the service ([`desk`]), which asks the guest for
//!   another one when git asks again;
//! - standard input, for `cat-file --batch`.
//!
//! The host does the rest: a private empty home, hooks directory, template directory and global configuration;
//! configuration overrides by `GIT_CONFIG_COUNT`; the repository's own `.git/config` reduced to what is harmless
//! before each start (filters, include, fsmonitor, helpers and aliases are gone); `GIT_LFS_SKIP_SMUDGE=1`, so that
//! a checkout leaves pointers and `lfs fetch`, `lfs checkout`, `lfs pull` bring the files.
//!
//! Addresses: before each command the service resolves the remote's host itself and refuses what `outbound` never calls
//! (plain http outside the local network too). git then connects to exactly the addresses that were checked
//! (`http.curloptResolve`) and follows no redirect. git-lfs has no such option: the remote's host is checked before it
//! starts, but it resolves the name again, and downloads from whatever address the LFS server names, without the token
//! and without a second check. What it keeps of an answer has to have the SHA-256 that the commit says. Behind a
//! proxy (`outbound.proxy`) the proxy resolves the names of the outside.

pub(crate) mod arguments;
pub(crate) mod certificates;
pub(crate) mod desk;
pub(crate) mod profile;
pub(crate) mod repository;
