//! The real `cookhouse serve` as a child process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// A server that runs. It is killed when this is dropped.
pub(crate) struct Service {
    child: Child,
    pub(crate) address: SocketAddr,
    said: Arc<Mutex<Vec<String>>>,
}

impl Service {
    /// Starts a server on the data and waits until it is ready.
    pub(crate) fn start(data: &Path, config: &Path) -> Service {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cookhouse"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data).arg("--config").arg(config);
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        for name in ["PATH", "HOME", "LANG"] {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        let mut child = command.spawn().expect("the server starts");
        let errors = BufReader::new(child.stderr.take().expect("piped"));
        let said = Arc::new(Mutex::new(Vec::new()));
        let (sender, ready) = mpsc::channel();
        let kept = said.clone();
        std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                let address = line.split("ready on http://").nth(1).and_then(|address| address.trim().parse::<SocketAddr>().ok());
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                address.map(|address| sender.send(address));
            }
        });
        let address = ready.recv_timeout(Duration::from_secs(60));
        let address = address.unwrap_or_else(|_| panic!("the server is not ready: {:#?}", said.lock().expect("not poisoned")));
        Service { child, address, said }
    }

    /// Every line of its log so far.
    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// As a power cut would.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("it ends");
    }

    /// As a service manager would. The exit code.
    pub(crate) fn terminate(mut self) -> Option<i32> {
        let asked = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().expect("kill starts");
        assert!(asked.success());
        let code = self.child.wait().expect("it ends").code();
        assert_eq!(code, Some(0), "{:#?}", self.said());
        code
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let said = self.said();
            eprintln!("the server's last words: {:#?}", &said[said.len().saturating_sub(40)..]);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
