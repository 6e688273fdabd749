//! The twin of `prefix.wgsl`.

use super::Params;
use super::words::Bound;

/// What workgroup `slot` does.
pub(super) fn prefix(params: Params, slot: u32, Bound { table, sums, .. }: &mut Bound) {
    if slot >= params.classes.count_ones() {
        return;
    }
    let row = params.table + slot * params.blocks;
    let mut before = 0;
    for index in row..row + params.blocks {
        let here = table.get(index);
        table.set(index, before);
        before += here;
    }
    sums.set(params.totals + slot, before);
}
