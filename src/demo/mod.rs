//! The demo: a server, a git server and a receiver on loopback, and one build through all of it.
