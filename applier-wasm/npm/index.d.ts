export * from './types.js';
export * from './cpu.js';
