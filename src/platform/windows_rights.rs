//! Whom files on Windows are for: what is private is this user's, the system's and the administrators', and nobody
//! else's. Everything below a private directory inherits that.
//!
//! Rights that keep strangers out already are left as they are: they may be an administrator's own choice.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, HandleOrInvalid, OwnedHandle};
use std::path::Path;
use std::ptr;

use windows_sys::Win32::Foundation::{GENERIC_ALL, GENERIC_READ, GENERIC_WRITE, LocalFree};
use windows_sys::Win32::Security::Authorization::{
    ConvertSidToStringSidW, ConvertStringSecurityDescriptorToSecurityDescriptorW, GetNamedSecurityInfoW, SDDL_REVISION_1, SE_FILE_OBJECT,
    SetNamedSecurityInfoW,
};
use windows_sys::Win32::Security::{
    ACCESS_ALLOWED_ACE, ACL, DACL_SECURITY_INFORMATION, GetAce, GetSecurityDescriptorDacl, GetTokenInformation, IsWellKnownSid,
    PROTECTED_DACL_SECURITY_INFORMATION, PSID, SECURITY_ATTRIBUTES, TOKEN_QUERY, TOKEN_USER, TokenUser, WELL_KNOWN_SID_TYPE,
    WinAnonymousSid, WinAuthenticatedUserSid, WinBuiltinGuestsSid, WinBuiltinUsersSid, WinInteractiveSid, WinNetworkSid, WinWorldSid,
};
use windows_sys::Win32::Storage::FileSystem::{
    CREATE_NEW, CreateDirectoryW, CreateFileW, FILE_APPEND_DATA, FILE_ATTRIBUTE_NORMAL, FILE_FLAG_OPEN_REPARSE_POINT, FILE_READ_DATA,
    FILE_SHARE_DELETE, FILE_SHARE_READ, FILE_SHARE_WRITE, FILE_WRITE_DATA,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

use super::windows_files::wide;

/// Groups that hold people whom nobody chose.
const STRANGERS: [WELL_KNOWN_SID_TYPE; 7] =
    [WinWorldSid, WinAuthenticatedUserSid, WinBuiltinUsersSid, WinBuiltinGuestsSid, WinInteractiveSid, WinNetworkSid, WinAnonymousSid];
/// The kind of entry that allows something; others deny or report.
const ALLOWS: u8 = 0;
/// Passing through and seeing when a file was changed give nothing away.
const TO_READ_OR_CHANGE: u32 = FILE_READ_DATA | FILE_WRITE_DATA | FILE_APPEND_DATA | GENERIC_READ | GENERIC_WRITE | GENERIC_ALL;

/// Files and directories that are made in a directory inherit.
const TO_ALL_BELOW: &str = "OICI";

/// Memory that the system gave and wants back.
struct Given(*mut c_void);

impl Drop for Given {
    fn drop(&mut self) {
        // SAFETY: it came from a call that says to free it so, and is freed once.
        unsafe { LocalFree(self.0) };
    }
}

/// The rights that something new begins with. None: what its directory has for what is made in it, if that is private.
fn first_rights(path: &Path, inheritance: &str) -> io::Result<Option<Given>> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if is_open_to_strangers(directory)? { own_rights(inheritance).map(Some) } else { Ok(None) }
}

fn attributes(rights: Option<&Given>) -> SECURITY_ATTRIBUTES {
    SECURITY_ATTRIBUTES {
        nLength: u32::try_from(size_of::<SECURITY_ATTRIBUTES>()).unwrap_or(u32::MAX),
        lpSecurityDescriptor: rights.map_or(ptr::null_mut(), |rights| rights.0),
        bInheritHandle: 0,
    }
}

/// A file that is new and private from its first moment on.
pub(super) fn create_private_file(path: &Path) -> io::Result<File> {
    let rights = first_rights(path, "")?;
    let attributes = attributes(rights.as_ref());
    let name = wide(path)?;
    // SAFETY: a text that ends with a zero, and attributes that live longer than the call. The handle is checked, then owned.
    let handle = unsafe {
        HandleOrInvalid::from_raw_handle(CreateFileW(
            name.as_ptr(),
            GENERIC_READ | GENERIC_WRITE,
            FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
            &raw const attributes,
            CREATE_NEW,
            FILE_ATTRIBUTE_NORMAL | FILE_FLAG_OPEN_REPARSE_POINT,
            ptr::null_mut(),
        ))
    };
    OwnedHandle::try_from(handle).map(File::from).map_err(|_| io::Error::last_os_error())
}

pub(super) fn make_private(path: &Path) -> io::Result<()> {
    restrict(path, "")
}

pub(super) fn new_private_directory(directory: &Path) -> io::Result<()> {
    let rights = first_rights(directory, TO_ALL_BELOW)?;
    let attributes = attributes(rights.as_ref());
    let name = wide(directory)?;
    // SAFETY: a text that ends with a zero, and attributes that live longer than the call.
    match unsafe { CreateDirectoryW(name.as_ptr(), &raw const attributes) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

pub(super) fn restrict_directory(directory: &Path) -> io::Result<()> {
    restrict(directory, TO_ALL_BELOW)
}

fn restrict(path: &Path, inheritance: &str) -> io::Result<()> {
    if !is_open_to_strangers(path)? {
        return Ok(());
    }
    let descriptor = own_rights(inheritance)?;
    let name = wide(path)?;
    let (mut present, mut defaulted, mut rights) = (0, 0, ptr::null_mut::<ACL>());
    // SAFETY: the descriptor lives longer than both calls and holds the list that the second one is given.
    let refused = unsafe {
        if GetSecurityDescriptorDacl(descriptor.0, &raw mut present, &raw mut rights, &raw mut defaulted) == 0 {
            return Err(io::Error::last_os_error());
        }
        let which = DACL_SECURITY_INFORMATION | PROTECTED_DACL_SECURITY_INFORMATION;
        SetNamedSecurityInfoW(name.as_ptr(), SE_FILE_OBJECT, which, ptr::null_mut(), ptr::null_mut(), rights, ptr::null())
    };
    match refused {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code.cast_signed())),
    }
}

/// Whether people whom nobody chose may read it. A disk that knows no rights keeps nobody out and cannot be made to.
fn is_open_to_strangers(path: &Path) -> io::Result<bool> {
    let name = wide(path)?;
    let (mut rights, mut descriptor) = (ptr::null_mut::<ACL>(), ptr::null_mut());
    // SAFETY: a text that ends with a zero, and places for the two answers; the list lies in the descriptor.
    let refused = unsafe {
        GetNamedSecurityInfoW(
            name.as_ptr(),
            SE_FILE_OBJECT,
            DACL_SECURITY_INFORMATION,
            ptr::null_mut(),
            ptr::null_mut(),
            &raw mut rights,
            ptr::null_mut(),
            &raw mut descriptor,
        )
    };
    if refused != 0 {
        return Err(io::Error::from_raw_os_error(refused.cast_signed()));
    }
    let _descriptor = Given(descriptor);
    if rights.is_null() {
        tracing::warn!("the disk knows no rights of files: whoever has an account on this machine can read what is on it");
        return Ok(false);
    }
    // SAFETY: the list is valid as long as the descriptor, and each entry is looked at as what its head says it is.
    unsafe {
        for index in 0..u32::from((*rights).AceCount) {
            let mut entry: *mut c_void = ptr::null_mut();
            if GetAce(rights, index, &raw mut entry) == 0 {
                return Err(io::Error::last_os_error());
            }
            let entry = entry.cast::<ACCESS_ALLOWED_ACE>();
            if (*entry).Header.AceType != ALLOWS || (*entry).Mask & TO_READ_OR_CHANGE == 0 {
                continue;
            }
            let who: PSID = (&raw mut (*entry).SidStart).cast();
            if STRANGERS.iter().any(|group| IsWellKnownSid(who, *group) != 0) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// All rights for this user, the system and the administrators; nothing is inherited from above.
fn own_rights(inheritance: &str) -> io::Result<Given> {
    let user = own_name()?;
    let text = format!("D:P(A;{inheritance};FA;;;SY)(A;{inheritance};FA;;;BA)(A;{inheritance};FA;;;{user})");
    let text: Vec<u16> = text.encode_utf16().chain([0]).collect();
    let mut descriptor = ptr::null_mut();
    // SAFETY: a text that ends with a zero, and a place for the answer, which is then owned.
    let made = unsafe {
        ConvertStringSecurityDescriptorToSecurityDescriptorW(text.as_ptr(), SDDL_REVISION_1, &raw mut descriptor, ptr::null_mut())
    };
    if made == 0 { Err(io::Error::last_os_error()) } else { Ok(Given(descriptor)) }
}

/// Who this process runs as, in the system's own spelling.
fn own_name() -> io::Result<String> {
    let mut token = ptr::null_mut();
    // SAFETY: the token is checked and then owned; the buffer is aligned for what it takes, and its size is given; the
    // text ends with a zero, as the call promises.
    unsafe {
        if OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &raw mut token) == 0 {
            return Err(io::Error::last_os_error());
        }
        let token = OwnedHandle::from_raw_handle(token);
        let mut room = [0u64; 64];
        let mut needed = 0;
        let size = u32::try_from(size_of_val(&room)).unwrap_or(0);
        if GetTokenInformation(token.as_raw_handle(), TokenUser, room.as_mut_ptr().cast(), size, &raw mut needed) == 0 {
            return Err(io::Error::last_os_error());
        }
        let user = (*room.as_ptr().cast::<TOKEN_USER>()).User.Sid;
        let mut text = ptr::null_mut::<u16>();
        if ConvertSidToStringSidW(user, &raw mut text) == 0 {
            return Err(io::Error::last_os_error());
        }
        let _given = Given(text.cast());
        let length = (0..256).take_while(|place| *text.add(*place) != 0).count();
        Ok(String::from_utf16_lossy(std::slice::from_raw_parts(text, length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_private_is_not_open_to_strangers() {
        let home = tempfile::tempdir().unwrap();
        let place = |name: &str| home.path().join(name);
        assert!(own_name().unwrap().starts_with("S-1-"));
        new_private_directory(&place("directory")).unwrap();
        assert!(!is_open_to_strangers(&place("directory")).unwrap());
        drop(create_private_file(&place("file")).unwrap());
        assert!(!is_open_to_strangers(&place("file")).unwrap());
        assert_eq!(create_private_file(&place("file")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        std::fs::write(place("directory/inherits"), "x").unwrap();
        make_private(&place("directory/inherits")).unwrap();
        assert!(!is_open_to_strangers(&place("directory/inherits")).unwrap());
        assert_eq!(is_open_to_strangers(&place("missing")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
