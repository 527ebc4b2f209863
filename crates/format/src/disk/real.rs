//! The file system of the machine, through `std::fs` alone.
//!
//! A file's metadata is read before the file is opened and compared after. So a symlink, or another
//! file that took the name in between, is not read. If the file was replaced, opening is tried
//! again. On Linux the open itself also follows no symlink and waits for no pipe. On systems other
//! than Unix the comparison and the permissions are left out and folders cannot be synced;
//! everything else is the same.

use super::{Disk, NewFile, Opened};
use crate::fault::fault;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// How often opening is tried if the file is replaced meanwhile, as maintenance sometimes does.
const LOOKS: u32 = 100;

/// The file system of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn open(&self, path: &Path) -> io::Result<Opened> {
        for _ in 0..LOOKS {
            let named = fs::symlink_metadata(path)?;
            refuse_unless_ours(&named, path)?;
            if let Some(opened) = open_if_same(&named, path)? {
                return Ok(opened);
            }
        }
        Err(refusal("the file was replaced each time it was opened"))
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        system::owner_only(&mut options);
        Ok(Box::new(RealFile(options.open(path)?)))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut names = names(folder)?;
        names.sort_unstable();
        Ok(names)
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        match system::create_private_folder(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let folder = fs::symlink_metadata(path)?;
                if !folder.is_dir() {
                    return Err(error);
                }
                refuse_folder_unless_ours(&folder, path)
            }
            done => done,
        }
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        fault!(FolderNotSynced, return Ok(()));
        system::sync_folder(path)
    }
}

/// Avoids `std::fs::read_dir`, which panics if the folder cannot be closed.
#[cfg(target_os = "linux")]
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::new(File::open(folder)?)? {
        let name = entry?.file_name().to_owned().into_string();
        names.extend(name.ok().filter(|name| name != "." && name != ".."));
    }
    Ok(names)
}

#[cfg(not(target_os = "linux"))]
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.extend(entry?.file_name().into_string());
    }
    Ok(names)
}

struct RealFile(File);

impl Write for RealFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl NewFile for RealFile {
    fn sync(self: Box<Self>) -> io::Result<()> {
        fault!(FileNotSynced, return Ok(()));
        self.0.sync_all()
    }
}

/// Opens a file whose metadata was read; `None` if another file has its name now.
fn open_if_same(named: &Metadata, path: &Path) -> io::Result<Option<Opened>> {
    let file = system::open(path)?;
    let opened = file.metadata()?;
    Ok(is_same(named, &opened).then(|| Opened {
        bytes: Box::new(file),
        length: opened.len(),
    }))
}

fn is_same(named: &Metadata, opened: &Metadata) -> bool {
    fault!(ReplacedFileRead, return true);
    system::same_file(named, opened)
}

/// Checks the file and its folder: who can write to the folder can replace the file.
fn refuse_unless_ours(file: &Metadata, path: &Path) -> io::Result<()> {
    fault!(AnyFileRead, return Ok(()));
    if !file.is_file() {
        return Err(refusal("not a regular file"));
    }
    if system::others_may_write(file) {
        return Err(refusal(
            "users other than its owner may write to it (set its mode to 0600)",
        ));
    }
    let around = around(path);
    let folder = fs::symlink_metadata(around)?;
    refuse_folder_unless_ours(&folder, around)?;
    if system::is_a_strangers(file, &folder) {
        return Err(refusal(
            "it belongs to another user (see who put it there, or remove it)",
        ));
    }
    Ok(())
}

fn refuse_folder_unless_ours(folder: &Metadata, path: &Path) -> io::Result<()> {
    if !folder.is_dir() {
        return Err(refusal("its folder is a symlink"));
    }
    if system::others_may_write(folder) {
        return Err(refusal(&format!(
            "users other than its owner may put files into {} (set its mode to 0700)",
            path.display()
        )));
    }
    if system::is_a_strangers(folder, &fs::metadata(around(path))?) {
        return Err(refusal(
            "the folder belongs to another user (see who made it, or name another folder)",
        ));
    }
    Ok(())
}

/// The folder that contains a path.
fn around(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => path,
    }
}

fn refusal(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(unix)]
mod system {
    use std::fs::{DirBuilder, File, Metadata, OpenOptions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
    use std::path::Path;

    #[cfg(target_os = "linux")]
    pub(super) fn open(path: &Path) -> io::Result<File> {
        let flags = open_flags().bits().cast_signed();
        OpenOptions::new().read(true).custom_flags(flags).open(path)
    }

    #[cfg(target_os = "linux")]
    fn open_flags() -> rustix::fs::OFlags {
        use rustix::fs::OFlags;

        crate::fault::fault!(OpenWaitsForPipe, return OFlags::NOFOLLOW);
        OFlags::NOFOLLOW | OFlags::NONBLOCK
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn open(path: &Path) -> io::Result<File> {
        File::open(path)
    }

    pub(super) fn same_file(a: &Metadata, b: &Metadata) -> bool {
        a.dev() == b.dev() && a.ino() == b.ino()
    }

    pub(super) fn others_may_write(file: &Metadata) -> bool {
        file.mode() & 0o022 != 0
    }

    /// Whether the owner is neither this user, nor root, nor the owner of the enclosing folder, who
    /// can put anything there.
    pub(super) fn is_a_strangers(file: &Metadata, around: &Metadata) -> bool {
        const ROOT: u32 = 0;
        let owner = file.uid();
        let us = rustix::process::geteuid().as_raw();
        ![us, ROOT, around.uid()].contains(&owner)
    }

    pub(super) fn owner_only(options: &mut OpenOptions) {
        options.mode(0o600);
    }

    pub(super) fn create_private_folder(path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(path)
    }

    pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

#[cfg(not(unix))]
mod system {
    use std::fs::{File, Metadata, OpenOptions};
    use std::io;
    use std::path::Path;

    pub(super) fn open(path: &Path) -> io::Result<File> {
        File::open(path)
    }

    pub(super) fn same_file(_: &Metadata, _: &Metadata) -> bool {
        true
    }

    pub(super) fn others_may_write(_: &Metadata) -> bool {
        false
    }

    pub(super) fn is_a_strangers(_: &Metadata, _: &Metadata) -> bool {
        false
    }

    pub(super) fn owner_only(_: &mut OpenOptions) {}

    pub(super) fn create_private_folder(path: &Path) -> io::Result<()> {
        std::fs::create_dir(path)
    }

    pub(super) fn sync_folder(_: &Path) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use crate::disk::{publish, read_file};
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn files_and_folders_are_accessible_to_owner_only() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("filters");
        RealDisk.create_folder(&folder).unwrap();
        RealDisk.create_folder(&folder).unwrap();
        publish(&RealDisk, &folder, "a", b"contents").unwrap();
        assert_eq!(mode(&folder), 0o700);
        assert_eq!(mode(&folder.join("a")), 0o600);
        assert_eq!(RealDisk.list(&folder).unwrap(), ["a"]);
        assert_eq!(
            read_file(&RealDisk, &folder.join("a"), 100).unwrap(),
            b"contents"
        );
        RealDisk.remove(&folder.join("a")).unwrap();
        assert!(RealDisk.list(&folder).unwrap().is_empty());
    }

    /// A user who can put a file there can remove the database as well, or must not be trusted.
    #[test]
    fn file_and_folder_of_another_user_are_refused() {
        const STRANGER: Option<u32> = Some(65_534);
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("filters");
        RealDisk.create_folder(&folder).unwrap();
        publish(&RealDisk, &folder, "a", b"contents").unwrap();
        let file = folder.join("a");
        let read = || read_file(&RealDisk, &file, 100).map_err(|error| error.to_string());
        if chown(&file, STRANGER, None).is_err() {
            eprintln!("skipped: only the system's owner can give a file away");
            return;
        }
        assert!(read().unwrap_err().contains("it belongs to another user"));
        chown(&folder, STRANGER, None).unwrap();
        let refused = "the folder belongs to another user";
        assert!(read().unwrap_err().contains(refused));
        let error = RealDisk.create_folder(&folder).unwrap_err().to_string();
        assert!(error.contains(refused), "{error}");
        // A database that belongs entirely to another user may be read.
        chown(home.path(), STRANGER, None).unwrap();
        assert_eq!(read().unwrap(), b"contents");
    }

    #[test]
    fn file_under_repeated_replacement_is_read_whole() {
        let home = tempfile::tempdir().unwrap();
        let replace = |bytes: &[u8]| publish(&RealDisk, home.path(), "a", bytes).unwrap();
        replace(b"first");
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| (0..300).for_each(|_| replace(b"later")));
            while !writer.is_finished() {
                let read = read_file(&RealDisk, &home.path().join("a"), 100).unwrap();
                assert!(read == b"first" || read == b"later");
            }
        });
    }

    /// A file that appears between the check and the open is another file, which was not checked.
    #[test]
    fn file_replaced_between_check_and_open_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("a");
        publish(&RealDisk, home.path(), "a", b"first").unwrap();
        let named = fs::symlink_metadata(&file).unwrap();
        assert!(open_if_same(&named, &file).unwrap().is_some());
        publish(&RealDisk, home.path(), "a", b"later").unwrap();
        assert!(open_if_same(&named, &file).unwrap().is_none());
    }

    /// Syncing something that cannot be synced returns the system's error.
    #[cfg(target_os = "linux")]
    #[test]
    fn sync_returns_the_error_of_the_system() {
        let file = File::options().write(true).open("/dev/null").unwrap();
        let folder = Path::new("/proc");
        for refused in [
            Box::new(RealFile(file)).sync(),
            RealDisk.sync_folder(folder),
        ] {
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn a_published_file_replaces_the_old_one() {
        let home = tempfile::tempdir().unwrap();
        publish(&RealDisk, home.path(), "a", b"old").unwrap();
        publish(&RealDisk, home.path(), "a", b"new").unwrap();
        assert_eq!(
            read_file(&RealDisk, &home.path().join("a"), 100).unwrap(),
            b"new"
        );
        assert_eq!(RealDisk.list(home.path()).unwrap(), ["a"]);
    }

    #[test]
    fn symlinks_folders_and_files_that_others_may_write_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("file");
        publish(&RealDisk, home.path(), "file", b"x").unwrap();
        let link = home.path().join("link");
        symlink(&file, &link).unwrap();
        for path in [link.as_path(), home.path()] {
            let error = read_file(&RealDisk, path, 100).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path:?}");
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o620)).unwrap();
        assert!(read_file(&RealDisk, &file, 100).is_err());
    }

    /// A symlink that appears between the check and the open is not noticed by the check.
    #[test]
    fn open_follows_no_symlink() {
        let home = tempfile::tempdir().unwrap();
        publish(&RealDisk, home.path(), "file", b"x").unwrap();
        let link = home.path().join("link");
        symlink(home.path().join("file"), &link).unwrap();
        assert!(system::open(&home.path().join("file")).is_ok());
        assert_eq!(system::open(&link).is_ok(), cfg!(not(target_os = "linux")));
    }

    /// Nor does it wait for a writer of the pipe: that would block the open of the database for
    /// ever.
    #[cfg(target_os = "linux")]
    #[test]
    fn open_does_not_wait_for_the_writer_of_a_pipe() {
        use rustix::fs::{CWD, Mode, mkfifoat};
        use std::sync::mpsc;
        use std::time::Duration;

        let home = tempfile::tempdir().unwrap();
        let pipe = home.path().join("pipe");
        mkfifoat(CWD, pipe.as_path(), Mode::RUSR | Mode::WUSR).unwrap();
        let (done, opened) = mpsc::channel();
        std::thread::spawn(move || done.send(system::open(&pipe).is_ok()));
        assert_eq!(opened.recv_timeout(Duration::from_secs(10)), Ok(true));
    }

    #[test]
    fn a_folder_that_others_may_write_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("filters");
        fs::create_dir(&folder).unwrap();
        for (mode, allowed) in [(0o700, true), (0o755, true), (0o770, false), (0o702, false)] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            let made = RealDisk.create_folder(&folder);
            assert_eq!(made.is_ok(), allowed, "{mode:o}");
            if let Err(error) = made {
                assert!(error.to_string().contains("0700"), "{error}");
            }
        }
    }

    #[test]
    fn nothing_is_created_through_a_symlink() {
        let home = tempfile::tempdir().unwrap();
        symlink(home.path().join("elsewhere"), home.path().join("link")).unwrap();
        let taken = RealDisk.create_new(&home.path().join("link"));
        assert_eq!(taken.err().unwrap().kind(), io::ErrorKind::AlreadyExists);
        assert!(RealDisk.create_folder(&home.path().join("link")).is_err());
    }
}
