/** Makes `using session = ...` free it, where the language has `using`. */
export function disposable(type) {
  if (typeof Symbol.dispose === 'symbol') {
    Object.defineProperty(type.prototype, Symbol.dispose, { value: type.prototype.free, configurable: true, writable: true });
  }
  return type;
}
