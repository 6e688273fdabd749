//! Whole files, mapped where the system can.

use crate::error::Error;
use std::fs::File;
use std::io::Read;
use std::ops::Deref;
use std::path::Path;

/// A whole regular file, read-only: mapped, or in memory where its file system cannot map or does not tell its length.
///
/// Whoever writes to the file while it is mapped changes what is read; fingerprints of what was read catch it where it matters.
/// Whoever truncates it makes the system send SIGBUS, which ends the process; see [`guard_maps`].
#[derive(Debug)]
pub(crate) enum Map {
    Mapped {
        bytes: memmap2::Mmap,
        #[cfg(all(unix, feature = "guard"))]
        _guard: Option<guard::Registration>,
    },
    Memory(Vec<u8>),
}

impl Map {
    /// Opens a file; what is none (a folder, a pipe, a device) is refused without being opened.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let metadata = std::fs::metadata(path).map_err(Error::io("cannot open", path))?;
        if metadata.is_dir() {
            return Err(Error::checkpoint(path, "this is a folder, a file is needed"));
        }
        if !metadata.is_file() {
            let what = "is not a file but a pipe or a device, and a checkpoint is read in no order: save it to a file";
            return Err(Error::checkpoint(path, what));
        }
        let mut file = File::open(path).map_err(Error::io("cannot open", path))?;
        if metadata.len() > 0
            && let Some(map) = Self::mapped(&file, path)
        {
            return Ok(map);
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(Error::io("cannot read", path))?;
        Ok(Self::Memory(bytes))
    }

    /// `None` where the file cannot be mapped; reading it may still work.
    fn mapped(file: &File, path: &Path) -> Option<Self> {
        // SAFETY: the mapping is read-only and private to this type, and bytes are read as plain integers, for which every bit pattern
        // is valid. A file changed from outside while mapped gives other bytes or SIGBUS, as the type's documentation says.
        #[expect(unsafe_code)]
        let bytes = unsafe { memmap2::Mmap::map(file) }.ok()?;
        #[cfg(all(unix, feature = "guard"))]
        let guard = guard::register(&bytes, path);
        #[cfg(not(all(unix, feature = "guard")))]
        let _ = path;
        Some(Self::Mapped {
            bytes,
            #[cfg(all(unix, feature = "guard"))]
            _guard: guard,
        })
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped { bytes, .. } => bytes,
            Self::Memory(bytes) => bytes,
        }
    }
}

#[cfg(all(unix, feature = "guard"))]
pub(crate) use guard::TemporaryName;
#[cfg(all(unix, feature = "guard"))]
pub use guard::guard_maps;

/// A mapped file that shrinks: SIGBUS, made into a message and exit code 1.
#[cfg(all(unix, feature = "guard"))]
mod guard {
    use crate::error::Error;
    use std::ffi::{CString, c_int, c_void};
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

    /// What the handler needs, made beforehand: it may neither allocate nor lock. Entries are added in front and never freed.
    struct Entry {
        live: AtomicBool,
        what: What,
        next: *const Entry,
    }

    enum What {
        /// Addresses, and where to write what if one of them is lost.
        Mapped { start: usize, end: usize, descriptor: c_int, message: Vec<u8> },
        /// A file to remove on the way out.
        Temporary(CString),
    }

    /// The descriptor that an error goes to, and its text.
    type Render = fn(&Error) -> (i32, String);

    static ENTRIES: AtomicPtr<Entry> = AtomicPtr::new(std::ptr::null_mut());
    static RENDER: OnceLock<Render> = OnceLock::new();

    /// An entry in use; dropped, it is passed over.
    #[derive(Debug)]
    pub(crate) struct Registration(&'static AtomicBool);

    impl Drop for Registration {
        fn drop(&mut self) {
            self.0.store(false, Ordering::Release);
        }
    }

    /// The name of a temporary file that is removed if the process ends by the guard.
    #[derive(Debug)]
    pub(crate) struct TemporaryName(#[expect(dead_code, reason = "held for its drop")] Option<Registration>);

    impl TemporaryName {
        pub(crate) fn new(path: &Path) -> Self {
            let name = RENDER.get().and_then(|_| std::path::absolute(path).ok());
            let name = name.and_then(|path| CString::new(path.as_os_str().as_bytes()).ok());
            Self(name.map(|name| add(What::Temporary(name))))
        }
    }

    /// Notes a mapping, if the guard is on.
    pub(super) fn register(bytes: &[u8], path: &Path) -> Option<Registration> {
        let render = RENDER.get()?;
        let source = std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the file was cut while it was read");
        let (descriptor, message) = render(&Error::io("cannot read", path)(source));
        let range = bytes.as_ptr_range();
        let (start, end) = (range.start as usize, range.end as usize);
        Some(add(What::Mapped { start, end, descriptor, message: message.into_bytes() }))
    }

    fn add(what: What) -> Registration {
        let entry = Box::leak(Box::new(Entry { live: AtomicBool::new(true), what, next: std::ptr::null() }));
        let live: *const AtomicBool = &raw const entry.live;
        let mut head = ENTRIES.load(Ordering::Acquire);
        loop {
            entry.next = head;
            match ENTRIES.compare_exchange(head, entry, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        // SAFETY: the entry was leaked above and is never freed, and nothing writes to it from here on but through the atomic.
        #[expect(unsafe_code)]
        Registration(unsafe { &*live })
    }

    /// From here on, a mapped file that shrinks ends the process with exit code 1, after writing what `render` gives for the error to
    /// the descriptor it gives with it, and after removing temporary files that have names.
    ///
    /// A signal handler belongs to the whole process, so the library installs none by itself: this is for the command line tool.
    pub fn guard_maps(render: Render) {
        if RENDER.set(render).is_err() {
            return;
        }
        // SAFETY: the action is zeroed, which is valid for this plain struct, and then filled as sigaction(2) asks; `on_lost_page` has the
        // signature of SA_SIGINFO and calls only what signal-safety(7) allows. It runs on the alternate stack that std gives its threads.
        #[expect(unsafe_code)]
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_lost_page as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
        }
    }

    extern "C" fn on_lost_page(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
        static ENDING: AtomicBool = AtomicBool::new(false);
        // SAFETY: the system passes valid information; entries are complete before they can be reached, and never freed. What is called
        // (write, unlink, signal, pause, _exit) is safe in a signal handler.
        #[expect(unsafe_code)]
        unsafe {
            let address = (*info).si_addr() as usize;
            let entries = || {
                let first: *const Entry = ENTRIES.load(Ordering::Acquire);
                let entries = std::iter::successors(first.as_ref(), |entry| entry.next.as_ref());
                entries.filter(|entry| entry.live.load(Ordering::Acquire))
            };
            let lost = entries().find_map(|entry| match &entry.what {
                What::Mapped { start, end, descriptor, message } if (*start..*end).contains(&address) => {
                    Some((*descriptor, message))
                }
                _ => None,
            });
            let Some((descriptor, message)) = lost else {
                // Not ours: it happens again, and ends the process as it would have.
                libc::signal(libc::SIGBUS, libc::SIG_DFL);
                return;
            };
            while ENDING.swap(true, Ordering::AcqRel) {
                libc::pause();
            }
            for entry in entries() {
                if let What::Temporary(name) = &entry.what {
                    libc::unlink(name.as_ptr());
                }
            }
            libc::write(descriptor, message.as_ptr().cast(), message.len());
            libc::_exit(1);
        }
    }
}
