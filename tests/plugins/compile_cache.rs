//! Compiled plugins are believed only with their code of authenticity.

use std::collections::BTreeMap;
use std::path::Path;

use cookhouse::plugins::Plugins;
use serde_json::json;

use super::{ABUSE, Host, KEY, outbound, settings};

/// Opens the host on this directory and runs a call, so that the cache was read or written.
async fn run(directory: &Path, key: [u8; 32]) {
    let plugins = Plugins::open_with(settings(directory), outbound(), key, vec![ABUSE.into()]).unwrap();
    let host = Host { plugins, ..Host::abuse() };
    assert_eq!(host.misbehave(json!({"do": "nothing"})).await.unwrap(), "nothing");
}

fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory.join("plugins")).unwrap().flatten();
    let files = entries.filter(|entry| entry.path().is_file());
    files.map(|entry| (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).unwrap())).collect()
}

#[tokio::test]
async fn what_is_not_authentic_is_compiled_again() {
    let directory = tempfile::tempdir().unwrap();
    run(directory.path(), KEY).await;
    let good = files(directory.path());
    assert_eq!(good.len(), 2, "{:?}", good.keys());
    let code = good.keys().find(|name| name.ends_with(".cwasm")).unwrap().clone();
    let mac = good.keys().find(|name| name.ends_with(".mac")).unwrap().clone();
    let place = directory.path().join("plugins");
    type Spoil = fn(&mut Vec<u8>);
    let spoils: [(&str, &str, Spoil); 4] = [
        ("a flipped bit in the code", &code, |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        }),
        ("truncated code", &code, |bytes| bytes.truncate(1000)),
        ("a wrong code of authenticity", &mac, |bytes| bytes[0] ^= 1),
        ("an empty code of authenticity", &mac, Vec::clear),
    ];
    for (what, name, spoil) in spoils {
        let mut bytes = good[name].clone();
        spoil(&mut bytes);
        std::fs::write(place.join(name), &bytes).unwrap();
        run(directory.path(), KEY).await;
        let after = files(directory.path());
        assert_ne!(after[name], bytes, "{what} was believed");
        assert!(after == good || after.len() == 2, "{what}");
    }
    // Another server's key: the whole directory is somebody else's.
    run(directory.path(), [8; 32]).await;
    assert_ne!(files(directory.path())[&mac], good[&mac]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o700);
    }
}

#[tokio::test]
async fn a_compiled_component_is_no_component() {
    let directory = tempfile::tempdir().unwrap();
    run(directory.path(), KEY).await;
    let compiled = files(directory.path()).into_iter().find(|(name, _)| name.ends_with(".cwasm")).unwrap().1;
    let error = Plugins::open_with(settings(directory.path()), outbound(), KEY, vec![compiled.into()]).err().unwrap();
    assert!(error.to_string().contains("no WebAssembly component"), "{error}");
}
