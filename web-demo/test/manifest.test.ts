import { describe, expect, it } from 'vitest';

import { parseManifest } from '../src/manifest.js';

const HASH = 'ab'.repeat(32);
const PATCH = { file: '021.pulse', from: 20, to: 21, bytes: 5, sha256OfTarget: HASH };
const CHAIN = { name: 'model', notice: 'licence', base: 'step_20.safetensors', baseStep: 20, patches: [PATCH] };

describe('parseManifest', () => {
  it('takes what cargo xtask demo writes', () => {
    expect(parseManifest({ ...CHAIN, more: 'ignored' })).toEqual(CHAIN);
  });

  it('does without hashes', () => {
    const { sha256OfTarget: _, ...patch } = PATCH;
    expect(parseManifest({ ...CHAIN, patches: [patch] }).patches[0]?.sha256OfTarget).toBeUndefined();
  });

  it.each([
    ['a list', [], 'chain.json is not an object'],
    ['no name', { ...CHAIN, name: 7 }, 'name is not a string'],
    ['no patches', { ...CHAIN, patches: [] }, 'at least one patch'],
    ['a step that is no number', { ...CHAIN, baseStep: '20' }, 'baseStep is not a whole number'],
    ['a base outside the folder', { ...CHAIN, base: '../step_20.safetensors' }, 'base is not a plain file name'],
    ['a base on another server', { ...CHAIN, base: '//elsewhere' }, 'base is not a plain file name'],
    ['a hash cut short', { ...CHAIN, patches: [{ ...PATCH, sha256OfTarget: 'ab' }] }, '64 hexadecimal digits'],
    ['a chain with a gap', { ...CHAIN, patches: [PATCH, { ...PATCH, from: 22, to: 23 }] }, 'starts from step 22'],
  ])('refuses %s', (_, value, message) => {
    expect(() => parseManifest(value)).toThrow(message);
  });
});
