//! Writes device printf output to this program's stdout and stderr, through C's stdio buffers so that it stays in order
//! with the program's own output.

unsafe extern "C" {
    static stdout: *mut libc::FILE;
    static stderr: *mut libc::FILE;
}

pub fn write(descriptor: u32, text: &[u8]) {
    // SAFETY: stdio streams are valid unless the program closed them, which C's functions survive; the bytes are readable
    // for the length passed.
    unsafe {
        let stream = if descriptor == 2 { stderr } else { stdout };
        libc::fwrite(text.as_ptr().cast(), 1, text.len(), stream);
        libc::fflush(stream);
    }
}
