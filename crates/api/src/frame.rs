//! Frames: four bytes of length (big-endian), then as many bytes of JSON.
//!
//! The reader trusts nothing: a length beyond the limit is an error before a
//! byte of it is stored, and a frame that stops in the middle stays in the
//! decoder until the caller gives up on it.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Message, VERSION};

/// The largest frame that the daemon accepts.
pub const MAX_REQUEST: usize = 64 << 10;

/// The largest frame that a client accepts. Long lists come in several parts.
pub const MAX_REPLY: usize = 16 << 20;

/// Why a frame cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Longer than the receiver takes.
    #[error("a message of {bytes} bytes exceeds the limit of {limit}")]
    TooLong {
        /// As announced.
        bytes: usize,
        /// What the receiver takes.
        limit: usize,
    },
    /// Not JSON, or not a message of ours.
    #[error("not understood: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Another version of the messages.
    #[error("the other side speaks version {theirs} of the messages, this one {VERSION}")]
    Version {
        /// As received.
        theirs: u32,
    },
}

/// A message as the bytes of one frame.
///
/// # Errors
/// When it exceeds `limit`.
pub fn encode<T: Serialize>(body: &T, limit: usize) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; HEADER];
    serde_json::to_writer(&mut bytes, &Message::new(body))?;
    let length = bytes.len() - HEADER;
    if length > limit {
        return Err(FrameError::TooLong { bytes: length, limit });
    }
    // cannot panic: the limits are far below 4 GiB.
    let length = u32::try_from(length).expect("below the limit");
    bytes[..HEADER].copy_from_slice(&length.to_be_bytes());
    Ok(bytes)
}

/// Turns received bytes into messages.
#[derive(Debug)]
pub struct Decoder {
    received: Vec<u8>,
    limit: usize,
}

impl Decoder {
    /// A decoder of frames of up to `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Decoder { received: Vec::new(), limit }
    }

    /// Stores what was received.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// True while part of a message is there and the rest is not.
    pub fn waiting(&self) -> bool {
        !self.received.is_empty()
    }

    /// Bytes received and not yet taken.
    pub fn held(&self) -> usize {
        self.received.len()
    }

    /// The next whole message; `None` until all of it is there. After an error
    /// the stream cannot be trusted: close it.
    ///
    /// # Errors
    /// When the frame is too long, not a message, or of another version.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let Some(header) = self.received.first_chunk::<HEADER>() else { return Ok(None) };
        let bytes = u32::from_be_bytes(*header) as usize;
        if bytes > self.limit {
            return Err(FrameError::TooLong { bytes, limit: self.limit });
        }
        let Some(json) = self.received.get(HEADER..HEADER + bytes) else { return Ok(None) };
        let message = parse(json);
        self.received.drain(..HEADER + bytes);
        message.map(Some)
    }
}

/// The version is read first: a message of another version may have any body.
fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, FrameError> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        version: u32,
    }
    let Versioned { version } = serde_json::from_slice(json)?;
    if version != VERSION {
        return Err(FrameError::Version { theirs: version });
    }
    Ok(serde_json::from_slice::<Message<T>>(json)?.body)
}

const HEADER: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Request, What};
    use proptest::prelude::*;

    fn request() -> Request {
        Request::Show { what: What::Ports }
    }

    #[test]
    fn a_message_survives_any_cut() {
        let bytes = encode(&request(), MAX_REQUEST).unwrap();
        for cut in 0..bytes.len() {
            let mut decoder = Decoder::new(MAX_REQUEST);
            decoder.feed(&bytes[..cut]);
            assert_eq!(decoder.take::<Request>().unwrap(), None);
            assert_eq!(decoder.waiting(), cut > 0);
            decoder.feed(&bytes[cut..]);
            decoder.feed(&bytes);
            assert_eq!(decoder.take().unwrap(), Some(request()));
            assert_eq!(decoder.take().unwrap(), Some(request()));
            assert!(!decoder.waiting());
        }
    }

    #[test]
    fn too_long_is_refused_by_its_header_alone() {
        let mut decoder = Decoder::new(10);
        decoder.feed(&[0, 0, 0, 11]);
        let error = decoder.take::<Request>().unwrap_err();
        assert!(matches!(error, FrameError::TooLong { bytes: 11, limit: 10 }));
        assert!(matches!(encode(&request(), 10), Err(FrameError::TooLong { .. })));
    }

    #[test]
    fn another_version_is_named() {
        let mut decoder = Decoder::new(100);
        let json = br#"{"version":7,"body":{"from the":"future"}}"#;
        decoder.feed(&(json.len() as u32).to_be_bytes());
        decoder.feed(json);
        let error = decoder.take::<Request>().unwrap_err();
        assert!(matches!(error, FrameError::Version { theirs: 7 }), "{error}");
    }

    proptest! {
        #[test]
        fn bytes_of_any_kind_are_an_error_or_a_wait(bytes: Vec<u8>, length in 0_u32..200) {
            let mut decoder = Decoder::new(MAX_REQUEST);
            decoder.feed(&length.to_be_bytes());
            decoder.feed(&bytes);
            while let Ok(Some(_)) = decoder.take::<Request>() {}
        }
    }
}
