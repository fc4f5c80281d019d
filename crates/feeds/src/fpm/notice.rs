//! What an operator should hear of, a line each, and no flood of them.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::time::{Duration, Instant};

use super::peer::User;

/// Something worth a line in the log.
#[derive(Debug)]
pub enum Notice {
    /// A connection was refused for its user.
    Stranger {
        /// Whose it is; `None`: it had ended, or the kernel does not say.
        user: io::Result<Option<u32>>,
        /// Who may connect.
        users: Vec<User>,
    },
    /// A connection was refused because there is one already.
    Second,
    /// The connection ended.
    Lost {
        /// How long its routes serve.
        hold: Duration,
    },
    /// What nobody has repeated in time is swept.
    Swept {
        /// True: nobody has come back.
        expired: bool,
    },
}

impl Display for Notice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Stranger { user: Err(error), .. } => {
                write!(f, "a connection is refused: the kernel does not say whose it is: {error}")
            }
            Notice::Stranger { user: Ok(None), .. } => {
                f.write_str("a connection is refused: its other end has been closed")
            }
            Notice::Stranger { user: Ok(Some(user)), users } => {
                let users: Vec<_> = users.iter().map(ToString::to_string).collect();
                let users = users.join(", ");
                write!(f, "a connection of user {user} is refused; `users` of [fpm] are: {users}")
            }
            Notice::Second => f.write_str("a second connection is refused: FRR is connected"),
            Notice::Lost { hold } => {
                write!(f, "FRR is gone; its routes serve for {} s", hold.as_secs())
            }
            Notice::Swept { expired: true } => {
                f.write_str("FRR has not come back in time: its routes are swept")
            }
            Notice::Swept { expired: false } => {
                f.write_str("what FRR has not repeated in time is swept")
            }
        }
    }
}

/// Notices that nobody has taken yet.
#[derive(Default)]
pub(super) struct Notices {
    waiting: Vec<Notice>,
    /// When a stranger and a second were last noted: whoever connects on and on fills
    /// no log.
    noted: [Option<Instant>; 2],
}

impl Notices {
    pub(super) fn take(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.waiting)
    }

    pub(super) fn stranger(&mut self, user: io::Result<Option<u32>>, users: &[User]) {
        if self.is_due(0) {
            self.push(Notice::Stranger { user, users: users.to_vec() });
        }
    }

    pub(super) fn second(&mut self) {
        if self.is_due(1) {
            self.push(Notice::Second);
        }
    }

    pub(super) fn lost(&mut self, hold: Duration) {
        self.push(Notice::Lost { hold });
    }

    pub(super) fn swept(&mut self, expired: bool) {
        self.push(Notice::Swept { expired });
    }

    fn is_due(&mut self, kind: usize) -> bool {
        let now = Instant::now();
        let due = self.noted[kind].is_none_or(|last| now.duration_since(last) >= BETWEEN);
        if due {
            self.noted[kind] = Some(now);
        }
        due
    }

    /// Who never takes them keeps the first.
    fn push(&mut self, notice: Notice) {
        if self.waiting.len() < MOST {
            self.waiting.push(notice);
        }
    }
}

const BETWEEN: Duration = Duration::from_secs(60);
const MOST: usize = 16;
