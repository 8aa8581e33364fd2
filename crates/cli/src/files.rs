//! Explanations for files that cannot be read or written.

use std::io::{self, ErrorKind};

/// Explains why a file cannot be read.
pub fn unread(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "no such file".to_owned(),
        _ => cause(error),
    }
}

/// Explains why a file cannot be written. A missing file is created, so "not found" refers to its directory.
pub fn unwritten(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "there is no such directory".to_owned(),
        _ => cause(error),
    }
}

fn cause(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        ErrorKind::IsADirectory => "it is a directory".to_owned(),
        ErrorKind::AlreadyExists => "a file of that name exists".to_owned(),
        ErrorKind::NotADirectory => "a part of its path is not a directory".to_owned(),
        ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
        ErrorKind::ReadOnlyFilesystem => "the file system is read-only".to_owned(),
        ErrorKind::StorageFull => "the disk is full".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_words() {
        let table = [
            (ErrorKind::NotFound, "no such file", "there is no such directory"),
            (ErrorKind::PermissionDenied, "permission denied", "permission denied"),
            (ErrorKind::IsADirectory, "it is a directory", "it is a directory"),
            (ErrorKind::AlreadyExists, "a file of that name exists", "a file of that name exists"),
            (ErrorKind::ReadOnlyFilesystem, "the file system is read-only", "the file system is read-only"),
            (ErrorKind::StorageFull, "the disk is full", "the disk is full"),
        ];
        for (kind, read, written) in table {
            assert_eq!(
                (unread(&kind.into()), unwritten(&kind.into())),
                (read.to_owned(), written.to_owned())
            );
        }
    }
}
