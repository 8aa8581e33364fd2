//! Extensible priorities (RFC 9218), which determine the order of responses.

/// The priority of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// The urgency, from 0, the most urgent, to 7.
    pub urgency: u8,
    /// Whether parts of the response are useful to the client: then its content alternates with that of other responses
    /// of the same urgency.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// Returns the priority with the changes of a `Priority` field value. Missing or malformed members change nothing.
    pub fn update(self, value: &[u8]) -> Self {
        value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).fold(self, |priority, member| {
            // No parameters are defined yet.
            match member.split(|byte| *byte == b';').next().map(<[u8]>::trim_ascii_end) {
                Some([b'u', b'=', urgency @ b'0'..=b'7']) => Self { urgency: urgency - b'0', ..priority },
                Some(b"i" | b"i=?1") => Self { incremental: true, ..priority },
                Some(b"i=?0") => Self { incremental: false, ..priority },
                _ => priority,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc9218_section_4_parameters() {
        for (value, urgency, incremental) in [
            ("", 3, false),
            ("u=5, i", 5, true),
            ("u=0", 0, false),
            ("i=?1,u=7", 7, true),
            ("i, i=?0", 3, false),
            ("u=8", 3, false),
            ("u=-1", 3, false),
            ("u=2.5", 3, false),
            ("u=1;x=2 , i;y", 1, true),
            ("U=1", 3, false),
            (",,=;", 3, false),
        ] {
            assert_eq!(
                Priority::default().update(value.as_bytes()),
                Priority { urgency, incremental },
                "{value:?}"
            );
        }
        let signalled = Priority { urgency: 1, incremental: true };
        assert_eq!(signalled.update(b"x=1"), signalled);
    }
}
