//! What it does.

use std::hint::black_box;

use serde_json::Value;

use crate::cookhouse::plugin::command::{self, Invocation};
use crate::cookhouse::plugin::types::Error;
use crate::cookhouse::plugin::workspaces::Workspace;
use crate::cookhouse::plugin::{cache, clock, config, http, log, progress, random, secrets};

/// Does what the settings say and tells what came of it.
pub(crate) fn commit(workspace: Option<&Workspace>) -> Result<String, Error> {
    let settings: Value = serde_json::from_str(&config::document()).unwrap_or_default();
    let text = |name: &str| settings[name].as_str().unwrap_or_default().to_owned();
    match text("do").as_str() {
        "nothing" => Ok("nothing".to_owned()),
        "spin" => loop {
            black_box(0);
        },
        "allocate" => {
            let mut kept = Vec::new();
            loop {
                kept.push(black_box(vec![1u8; 1 << 20]));
            }
        }
        "recurse" => Ok(recurse(1).to_string()),
        "panic" => panic!("on purpose"),
        "sleep" => clock::sleep_ms(3_600_000).map(|()| "woke".to_owned()),
        "endure" => loop {
            // Does not hear that it should stop.
            let _ = clock::sleep_ms(10);
        },
        "flood" => {
            for number in 0..100_000 {
                log::log(log::Level::Info, &format!("\u{1b}[31mline {number}\u{7}"), &[]);
            }
            Ok("flooded".to_owned())
        }
        "tell" => {
            log::log(log::Level::Info, &text("text"), &[("field".to_owned(), text("text"))]);
            progress::report(&text("text"), 1, Some(1), progress::Unit::Items, None);
            Err(crate::error(&format!("failed with {}", text("text"))))
        }
        "register" => {
            let _secret = secrets::register("own", text("text").as_bytes());
            log::log(log::Level::Info, &format!("got {}", text("text")), &[]);
            Ok(text("text"))
        }
        "handles" => {
            let bodies: Vec<http::Body> = (0..5000).map(|_| http::Body::new()).collect();
            Ok(bodies.len().to_string())
        }
        "string" => {
            // The length of a string that is not there: only the host would have to hold it.
            let long = "x".repeat(40 << 20);
            log::log(log::Level::Info, &long, &[]);
            Ok("said".to_owned())
        }
        "hold" => {
            let body = http::Body::new();
            let piece = vec![0u8; 4 << 20];
            for count in 1..1000 {
                if let Err(error) = body.append_bytes(&piece) {
                    return Ok(format!("{count}: {}", show(&error)));
                }
            }
            Ok("held".to_owned())
        }
        "parts" => {
            let body = http::Body::new();
            for count in 0..20_000 {
                if let Err(error) = body.append_bytes(b"x") {
                    return Ok(format!("{count}: {}", show(&error)));
                }
            }
            Ok("taken".to_owned())
        }
        "random" => Ok(random::bytes(1 << 30).len().to_string()),
        "cache" => {
            let before = cache::get("key").map(|value| value.len());
            cache::put("key", &[0; 10], 60_000);
            cache::put("large", &vec![0; 100_000], 60_000);
            Ok(format!("{before:?} {:?}", cache::get("large").map(|value| value.len())))
        }
        "reveal" => {
            let secret = secrets::get("token")?;
            Ok(format!("{} / {}", answer(secret.reveal()), answer(secrets::get("other"))))
        }
        "request" => request(&settings),
        "headers" => {
            let request = http::Request::new("GET", &text("url"));
            for number in 0..1000 {
                if let Err(error) = request.set_header(&format!("x-{number}"), "value") {
                    return Ok(format!("{number}: {}", show(&error)));
                }
            }
            Ok("set".to_owned())
        }
        "stream" => stream(&settings),
        "race" => race(&settings),
        "save" => save(workspace.ok_or_else(|| crate::error("no workspace"))?, &settings),
        "sign" => sign(&settings),
        "exchanges" => {
            let mut open = Vec::new();
            for count in 0..100 {
                match http::start(http::Request::new("GET", &text("url"))) {
                    Ok(exchange) => open.push(exchange),
                    Err(error) => return Ok(format!("{count}: {}", show(&error))),
                }
            }
            Ok("opened".to_owned())
        }
        "paths" => Ok(paths(workspace.ok_or_else(|| crate::error("no workspace"))?, &settings)),
        "git" => git(workspace, &settings),
        other => Err(crate::error(&format!("no such misdeed: {other}"))),
    }
}

#[expect(unconditional_recursion, reason = "that is the misdeed")]
fn recurse(depth: u64) -> u64 {
    let kept = black_box([depth; 32]);
    recurse(depth + 1) + kept[0]
}

fn show(error: &Error) -> String {
    format!("{:?} {} [{}]", error.code, error.message, error.reason.as_deref().unwrap_or_default())
}

fn answer<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    match result {
        Ok(value) => format!("ok {value:?}"),
        Err(error) => show(&error),
    }
}

fn request(settings: &Value) -> Result<String, Error> {
    let text = |name: &str| settings[name].as_str().unwrap_or_default().to_owned();
    let request = http::Request::new(settings["method"].as_str().unwrap_or("GET"), &text("url"));
    if let Some(name) = settings["header"].as_str() {
        request.set_header(name, "value")?;
    }
    if settings["authorize"].as_bool() == Some(true) {
        request.set_secret_header("authorization", "Bearer ", &secrets::get("token")?)?;
    }
    request.set_max_redirects(settings["redirects"].as_u64().unwrap_or(0) as u8)?;
    if let Some(milliseconds) = settings["idle"].as_u64() {
        request.set_idle_timeout(milliseconds as u32)?;
    }
    let response = http::send(request)?;
    let body = response.read_all(settings["limit"].as_u64().unwrap_or(1000) as u32)?;
    Ok(format!("{} {}", response.status(), String::from_utf8_lossy(&body)))
}

/// Writes a body while it is sent, and tells of every step.
fn stream(settings: &Value) -> Result<String, Error> {
    let request = http::Request::new("POST", settings["url"].as_str().unwrap_or_default());
    request.set_streamed_body(settings["length"].as_u64())?;
    let exchange = http::start(request)?;
    let piece = vec![b'x'; settings["piece"].as_u64().unwrap_or(1) as usize];
    let mut report = String::new();
    for _ in 0..settings["pieces"].as_u64().unwrap_or(0) {
        if let Err(error) = exchange.write(&piece) {
            report = format!("write: {}; ", show(&error));
            break;
        }
    }
    match exchange.finish() {
        Ok(response) => {
            let body = response.read_all(1000)?;
            report.push_str(&format!("{} {}; ", response.status(), String::from_utf8_lossy(&body)));
        }
        Err(error) => report.push_str(&format!("finish: {}; ", show(&error))),
    }
    let after = exchange.write(b"late").err().map_or_else(|| "taken".to_owned(), |error| show(&error));
    let again = exchange.finish().err().map_or_else(|| "finished".to_owned(), |error| show(&error));
    Ok(format!("{report}after: {after}; again: {again}"))
}

/// Starts requests to all of the URLs and takes the first that is ready, until all but the last are in.
fn race(settings: &Value) -> Result<String, Error> {
    let mut waiting = Vec::new();
    for url in settings["urls"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        waiting.push((url, http::start(http::Request::new("GET", url))?));
    }
    let mut report = String::new();
    while waiting.len() > 1 {
        let first = http::wait_any(&waiting.iter().map(|(_, exchange)| exchange).collect::<Vec<_>>())?;
        let (url, exchange) = waiting.remove(first as usize);
        let is_ready = exchange.is_ready();
        let said = match exchange.finish() {
            Ok(response) => String::from_utf8_lossy(&response.read_all(1000)?).into_owned(),
            Err(error) => show(&error),
        };
        report.push_str(&format!("{} {is_ready} {said}; ", url.rsplit('/').next().unwrap_or_default()));
    }
    let none = http::wait_any(&[]).err().map_or_else(String::new, |error| show(&error));
    let last = waiting.iter().all(|(_, exchange)| exchange.is_ready());
    Ok(format!("{report}last: {last}; none: {none}"))
}

fn save(workspace: &Workspace, settings: &Value) -> Result<String, Error> {
    let mut report = String::new();
    for path in settings["paths"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let response = http::send(http::Request::new("GET", settings["url"].as_str().unwrap_or_default()))?;
        let saved = response.save(workspace, path, settings["limit"].as_u64().unwrap_or(0));
        report.push_str(&format!("{}; ", answer(saved)));
    }
    Ok(report)
}

fn sign(settings: &Value) -> Result<String, Error> {
    use crate::cookhouse::plugin::secrets::SignatureAlgorithm;
    let algorithm = match settings["algorithm"].as_str() {
        Some("rs256") => SignatureAlgorithm::Rs256,
        Some("es256") => SignatureAlgorithm::Es256,
        _ => SignatureAlgorithm::Ed25519,
    };
    let key = match settings["key"].as_str() {
        Some(key) => secrets::register("key", key.as_bytes()),
        None => secrets::get("token")?,
    };
    let signature = key.sign(algorithm, settings["text"].as_str().unwrap_or_default().as_bytes())?;
    Ok(signature.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn paths(workspace: &Workspace, settings: &Value) -> String {
    let mut report = String::new();
    for path in settings["paths"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let outcomes = [
            workspace.read(path, 0, 100).is_ok(),
            workspace.write(path, b"x", false).is_ok(),
            workspace.make_directory(path).is_ok(),
            workspace.rename("inside.txt", path).is_ok(),
            workspace.entries(path, 10).is_ok(),
            workspace.remove(path, true).is_ok(),
        ];
        if outcomes.iter().any(|outcome| *outcome) {
            report.push_str(&format!("{path:?} {outcomes:?}; "));
        }
    }
    report
}

fn git(workspace: Option<&Workspace>, settings: &Value) -> Result<String, Error> {
    let mut report = String::new();
    for line in settings["lines"].as_array().into_iter().flatten().filter_map(Value::as_array) {
        let ended = match settings["follow"].as_u64() {
            None => command::run(invocation(workspace, settings, line)?, 10_000).map(|done| {
                let output = [done.output, done.error_output].concat();
                format!("{:?} {} {}", done.exit.code, done.exit.timed_out, String::from_utf8_lossy(&output))
            }),
            Some(count) => follow(|| invocation(workspace, settings, line), count),
        };
        report.push_str(&format!("{}\n", ended.unwrap_or_else(|error| show(&error))));
    }
    Ok(report)
}

fn invocation(workspace: Option<&Workspace>, settings: &Value, line: &[Value]) -> Result<Invocation, Error> {
    let invocation = Invocation::new(settings["tool"].as_str().unwrap_or("git"));
    for word in line.iter().filter_map(Value::as_str) {
        invocation.arg(word);
    }
    for (name, value) in settings["environment"].as_object().into_iter().flatten() {
        invocation.env(name, value.as_str().unwrap_or_default());
    }
    if settings["authorize"].as_bool() == Some(true) {
        invocation.secret_env("COOKHOUSE_GIT_PASSWORD", &secrets::get("token")?);
    }
    if let Some(workspace) = workspace {
        invocation.directory(workspace, settings["directory"].as_str().unwrap_or_default());
    }
    if let Some(milliseconds) = settings["timeout"].as_u64() {
        invocation.timeout_ms(milliseconds);
    }
    invocation.log_lines(true);
    if let Some(input) = settings["input"].as_str() {
        invocation.input(input.as_bytes());
    }
    Ok(invocation)
}

/// Starts that many of them and reads the lines of the first.
fn follow(invocation: impl Fn() -> Result<Invocation, Error>, count: u64) -> Result<String, Error> {
    let first = command::spawn(invocation()?)?;
    let mut more = Vec::new();
    for number in 1..count {
        match command::spawn(invocation()?) {
            Ok(process) => more.push(process),
            Err(error) => return Ok(format!("{number}: {}", show(&error))),
        }
    }
    let mut lines = 0;
    while first.next_line()?.is_some() {
        lines += 1;
    }
    first.wait().map(|exit| format!("{lines} lines, {:?}", exit.code))
}
