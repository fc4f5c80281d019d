//! Marks for AddressSanitizer. Rutter's own packets are in one mapping, in which the
//! sanitizer sees no borders. A build with `--cfg rutter_asan` (scripts/deep.sh) poisons the
//! buffers of free packets, and in packets in use all bytes that I1 does not grant: those
//! more than 64 bytes behind the data. Every other build does nothing.

use crate::Packet;

/// The packet is out, or its data have moved.
#[inline(always)]
pub(crate) fn show(packet: &Packet) {
    #[cfg(rutter_asan)]
    if packet.world() == crate::World::Own {
        let (bytes, seen) = (usize::from(packet.buf_len), packet.end() + 64);
        // SAFETY: the packet's own buffer; only what is known of it changes.
        unsafe { __asan_unpoison_memory_region(packet.buf.cast(), seen) };
        // SAFETY: as above; I1: `seen` bytes are in it.
        let rest = unsafe { packet.buf.add(seen) };
        // SAFETY: as above.
        unsafe { __asan_poison_memory_region(rest.cast(), bytes - seen) };
    }
    #[cfg(not(rutter_asan))]
    let _ = packet;
}

/// The packet is free.
#[inline(always)]
pub(crate) fn hide(packet: &Packet) {
    #[cfg(rutter_asan)]
    // SAFETY: as above.
    unsafe {
        __asan_poison_memory_region(packet.buf.cast(), packet.buf_len.into());
    }
    #[cfg(not(rutter_asan))]
    let _ = packet;
}

/// The memory goes back to the system, which gives it to others.
pub(crate) fn forget(base: *const u8, bytes: usize) {
    #[cfg(rutter_asan)]
    // SAFETY: memory of ours, for the last time.
    unsafe {
        __asan_unpoison_memory_region(base.cast(), bytes);
    }
    #[cfg(not(rutter_asan))]
    let _ = (base, bytes);
}

#[cfg(rutter_asan)]
unsafe extern "C" {
    fn __asan_poison_memory_region(place: *const std::ffi::c_void, bytes: usize);
    fn __asan_unpoison_memory_region(place: *const std::ffi::c_void, bytes: usize);
}
