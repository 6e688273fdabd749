fn replace(element: u32, cell: u32, before: u32, after: u32) {
    atomicXor(&weights[element], (before ^ after) << 16u);
}
