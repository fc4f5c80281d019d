//! What people write and clients send: a configuration, a request.

use api::Request;
use api::apps::router::What;
use api::frame::{Decoder, MAX_REQUEST, encode};
use daemon::apps;
use daemon::config::Config;

/// Any text is a configuration or a list of mistakes, each with a place in it.
pub fn configuration(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(mistakes) = Config::parse("fuzz.toml", text) {
        assert!(!mistakes.0.is_empty());
        let lines = 1 + text.matches('\n').count();
        assert!(mistakes.0.iter().all(|mistake| mistake.line <= lines));
    }
}

/// Any bytes are requests, a wait for more, or an error; what was understood
/// reads the same after it was written again.
pub fn request(bytes: &[u8]) {
    let mut decoder = Decoder::new(MAX_REQUEST);
    decoder.feed(bytes);
    while let Ok(Some(request)) = decoder.take::<Request>() {
        let mut again = Decoder::new(MAX_REQUEST);
        again.feed(&encode(&request, MAX_REQUEST).expect("no longer than it was"));
        assert_eq!(again.take().ok().flatten(), Some(request));
    }
}

/// What the fuzzer begins with.
pub fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let frame = |request: &Request| encode(request, MAX_REQUEST).expect("short");
    let routes = What::Routes {
        vrf: Some("main".into()),
        family: None,
        inside: Some("10.0.0.0/8".into()),
        to: None,
        limit: Some(7),
    };
    let show = frame(&Request::Show { what: routes.into() });
    let stop = frame(&Request::Stop { remove: true });
    vec![
        ("daemon_config", "example".into(), apps::example(true).into_bytes()),
        ("daemon_config", "empty".into(), Vec::new()),
        ("api_request", "show".into(), show.clone()),
        ("api_request", "two".into(), [show, stop].concat()),
        ("api_request", "long".into(), vec![255; 8]),
    ]
}
