//! What differs between operating systems: processes, disks, private files, signals. No other module is Unix-only,
//! and `unsafe` is allowed nowhere else but here and in the plugins' compile cache.
//!
//! | file | holds |
//! |---|---|
//! | `process.rs` | start a program, hear it, end it with everything it started |
//! | `confinement.rs`, `accounts.rs` | what a program may reach, and whom it runs as |
//! | `running.rs`, `lines.rs` | a started program whose output comes as lines |
//! | `files.rs`, `lock.rs` | private files, renames that never replace, syncing, free space, one server per data directory |
//! | `signals.rs`, `service.rs` | being asked to stop, and being run by a service manager that wants to be told |
//! | `tree.rs` | opening files of a tree that somebody else wrote |
//! | `unix.rs`, `windows.rs` | the two halves behind the faces above |
//! | `windows_files.rs`, `windows_rights.rs` | names, locks and long paths of Windows; whom its files are for |
//! | `windows_service.rs` | the service manager of Windows |
//! | `linux_processes.rs`, `cgroup.rs` | how Linux finds the processes that a build left behind |
//! | `landlocked.rs`, `handing_over.rs` | how Linux holds a program to its directories, and gives trees away |
//! | `other_processes.rs` | what is left of that on other Unix systems |

pub mod accounts;
pub mod confinement;
pub mod files;
pub mod lines;
pub mod lock;
pub mod process;
pub mod running;
pub mod service;
pub mod signals;
pub mod tree;

#[cfg(target_os = "linux")]
mod cgroup;
#[cfg(target_os = "linux")]
mod handing_over;
#[cfg(target_os = "linux")]
mod landlocked;
#[cfg(target_os = "linux")]
mod linux_processes;
#[cfg(all(unix, not(target_os = "linux")))]
mod other_processes;
#[cfg(windows)]
mod windows_files;
#[cfg(windows)]
mod windows_rights;
#[cfg(windows)]
mod windows_service;

#[cfg(unix)]
#[path = "unix.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;
