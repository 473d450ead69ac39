//! The demo's receiver against curl, whose multipart is not ours either.

use std::process::Command;

use cookhouse::demo::certificate::Authority;
use cookhouse::demo::receiver::Receiver;
use tempfile::TempDir;

struct Studio {
    receiver: Receiver,
    directory: TempDir,
}

impl Studio {
    async fn start() -> Studio {
        let authority = Authority::new().expect("an authority");
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("authority.pem"), &authority.pem).expect("written");
        std::fs::write(directory.path().join("b.tar.gz"), vec![7; 3 << 20]).expect("written");
        Studio { receiver: Receiver::start(authority.acceptor).await.expect("a receiver"), directory }
    }

    /// The status that curl was answered with; 000 when there was none.
    async fn curl(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("curl");
        command.args(["--silent", "--output", "/dev/null", "--write-out", "%{http_code}"]).args(arguments).arg(self.receiver.url());
        command.current_dir(self.directory.path());
        let output = tokio::task::spawn_blocking(move || command.output().expect("curl starts")).await.expect("it ends");
        String::from_utf8(output.stdout).expect("ASCII")
    }
}

const TRUSTED: [&str; 2] = ["--cacert", "authority.pem"];

#[tokio::test(flavor = "multi_thread")]
async fn it_says_exactly_what_came() {
    let mut studio = Studio::start().await;
    let form = ["--form", "metadata={\"buildId\":\"b\"};type=application/json", "--form", "artifact=@b.tar.gz;type=application/gzip"];
    let status = studio.curl(&[&TRUSTED[..], &["--header", "Authorization: Bearer x"], &form].concat()).await;
    assert_eq!(status, "204");
    let received = studio.receiver.next().await.expect("it came");
    assert_eq!((received.authorization.as_str(), received.content_type.as_str()), ("Bearer x", "multipart/form-data"));
    assert_eq!(received.metadata["buildId"], "b");
    let artifact = received.part("artifact").expect("a part");
    assert_eq!(
        (artifact.size, artifact.file_name.as_deref(), artifact.content_type.as_str()),
        (3 << 20, Some("b.tar.gz"), "application/gzip")
    );
    let own = Command::new("sha256sum").arg(studio.directory.path().join("b.tar.gz")).output().expect("sha256sum starts");
    assert!(String::from_utf8(own.stdout).expect("ASCII").starts_with(&artifact.sha256));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_deploy_is_refused() {
    let studio = Studio::start().await;
    let refused = |arguments: &[&'static str]| [&TRUSTED[..], arguments].concat();
    assert_eq!(studio.curl(&refused(&["--data", "x"])).await, "400");
    assert_eq!(studio.curl(&refused(&["--form", "metadata=no json"])).await, "400");
    assert_eq!(studio.curl(&refused(&["--request", "PUT"])).await, "404");
    // Without the authority nothing is sent at all.
    assert_eq!(studio.curl(&["--data", "x"]).await, "000");
}
