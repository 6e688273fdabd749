// The page's own GPU device, as an engine would have one.

export interface DeviceInfo {
  name: string;
  details: string;
  /** A driver that computes on the CPU. */
  software: boolean;
  limits: { buffer: number; binding: number };
}

export interface OpenDevice {
  device: GPUDevice;
  info: DeviceInfo;
}

/** A device, or the reason why there is none. */
export async function openDevice(): Promise<OpenDevice | string> {
  if (!('gpu' in navigator)) {
    return isSecureContext
      ? 'This browser has no WebGPU.'
      : 'WebGPU needs a secure page: serve it over https, or from localhost.';
  }
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: 'high-performance' });
  if (!adapter) return 'This browser has WebGPU, but found no GPU that it may use.';
  const { maxBufferSize, maxStorageBufferBindingSize } = adapter.limits;
  try {
    const device = await adapter.requestDevice({ requiredLimits: { maxBufferSize, maxStorageBufferBindingSize } });
    return { device, info: describe(adapter) };
  } catch (error) {
    return `The GPU gives no device: ${error instanceof Error ? error.message : String(error)}`;
  }
}

function describe({ info, limits }: GPUAdapter): DeviceInfo {
  const name = info.description || info.device || [info.vendor, info.architecture].filter(Boolean).join(' ') || 'Unnamed';
  const details = [info.vendor, info.architecture].filter((part) => part && !name.includes(part)).join(' · ');
  return {
    name,
    details,
    software: info.isFallbackAdapter || /swiftshader|llvmpipe|lavapipe/i.test(`${name} ${info.architecture}`),
    limits: { buffer: limits.maxBufferSize, binding: limits.maxStorageBufferBindingSize },
  };
}
