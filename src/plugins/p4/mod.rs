//! The tool `p4` as a plugin may use it: hardened, because the server is somebody else's, and so are the files that a
//! build left in the workspace (source-control guests call it through the interface `command`).
//!
//! What a guest says, and nothing else, is:
//!
//! - arguments: a sub-command of the table in [`arguments`] with its listed options, behind the output format (`-ztag
//!   -Mj`) and, for `sync`, the patience with a slow network; paths in depot syntax. `//{client}/...` stands for the
//!   client workspace that belongs to the workspace the guest was given, and `{client}` for its name where it is removed;
//! - `directory`: that workspace, for the commands that write into it;
//! - environment [`profile::USER`], [`profile::CHARSET`], [`profile::FINGERPRINT`] and, by `secret-env`, [`profile::TICKET`];
//! - standard input: the form of `client -i`, whose name and root are the host's (see [`form`]).
//!
//! Where the server is, is not the guest's to say: its manifest names the setting that holds the address (`serverFrom`).
//!
//! The host does the rest: a cleared environment; a private home with empty files in place of every file that could
//! configure p4 (`P4CONFIG`, `P4ENVIRO`, `P4ALIASES`, `P4TICKETS`); a trust file that holds the pinned fingerprint and
//! nothing else; the ticket in `P4PASSWD` and never in an argument; `P4CLIENTPATH`, so that p4 writes nothing outside of the
//! workspace whatever the server says, and no links left in the workspace that lead out of it. The server's name is resolved and checked by
//! `outbound` for each command, and p4 is given the address that was checked.

pub(crate) mod arguments;
pub(crate) mod form;
pub(crate) mod links;
pub(crate) mod profile;
pub(crate) mod server;
