//! Files that are read whole: regular ones of a limited size, so that a wrong path takes neither memory nor time.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// The size of the largest file that is read where its kind has no limit of its own, in bytes.
pub const LARGEST: u64 = 64 << 20;

/// Returns the content of the file at `path`.
///
/// # Errors
/// Also: it is longer than `most` bytes; it is no regular file. The pipes of a shell (`<(command)`) and `/dev/null` are read, too.
pub fn bytes(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let about = fs::metadata(path)?;
    // A pipe that has a name may have no writer, and is waited for without end.
    let is_of_shell = path.starts_with("/dev/fd") || path == Path::new("/dev/stdin");
    if about.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    let is_pipe = is_of_shell && about.file_type().is_fifo();
    if !(about.is_file() || is_pipe || path == Path::new("/dev/null")) {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut content = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut content)?;
    if content.len() as u64 > most {
        return Err(io::Error::other(format!("it is larger than {} MiB", most >> 20)));
    }
    Ok(content)
}

/// Returns the text of the file at `path`.
///
/// # Errors
/// Those of [`bytes`]; `InvalidData` if it is not UTF-8.
pub fn text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(bytes(path, most)?).map_err(|_| ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_up_to_a_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, vec![b'a'; 1 << 20]).unwrap();
        assert_eq!(text(&path, 1 << 20).unwrap().len(), 1 << 20);
        fs::write(&path, vec![b'a'; (1 << 20) + 1]).unwrap();
        assert_eq!(text(&path, 1 << 20).unwrap_err().to_string(), "it is larger than 1 MiB");
        assert!(bytes(Path::new("/dev/null"), LARGEST).unwrap().is_empty());
        assert_eq!(bytes(folder.path(), LARGEST).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert_eq!(bytes(Path::new("/dev/zero"), LARGEST).unwrap_err().to_string(), "it is no regular file");
    }
}
