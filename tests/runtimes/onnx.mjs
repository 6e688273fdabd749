// Writes ONNX models: the few messages of onnx.proto that a graph of plain operators needs. Field numbers are those
// of that file.

/** Element types of ONNX (TensorProto.DataType). */
export const ELEMENT_TYPES = { float32: 1, float16: 10 };

const IR_VERSION = 8;
const OPSET_VERSION = 17;
const VARINT = 0;
const BYTES = 2;

// AttributeProto says what it holds by a number of its own, beside the field that holds it.
const INT = { field: 3, type: 2 };
const INTS = { field: 8, type: 7 };

function varint(value) {
  const groups = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  while (rest > 0x7fn) {
    groups.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  return [...groups, Number(rest)];
}

function concatenate(parts) {
  const joined = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let offset = 0;
  for (const part of parts) {
    joined.set(part, offset);
    offset += part.length;
  }
  return joined;
}

const integer = (field, value) => Uint8Array.from([...varint((field << 3) | VARINT), ...varint(value)]);
const bytes = (field, content) =>
  concatenate([Uint8Array.from([...varint((field << 3) | BYTES), ...varint(content.length)]), content]);
const text = (field, value) => bytes(field, new TextEncoder().encode(value));
const message = (field, ...parts) => bytes(field, concatenate(parts.flat()));

/** ValueInfoProto: a name with an element type and a shape. */
function valueInfo(field, { name, type, dims }) {
  const shape = dims.map((size) => message(1, integer(1, size)));
  return message(field, text(1, name), message(2, message(1, integer(1, ELEMENT_TYPES[type]), message(2, shape))));
}

/** TensorProto with `raw_data`, little-endian. */
function initializer({ name, type, dims, data }) {
  const raw = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return message(
    5,
    dims.map((size) => integer(1, size)),
    integer(2, ELEMENT_TYPES[type]),
    text(8, name),
    bytes(9, raw),
  );
}

function attribute([name, value]) {
  const { field, type } = Array.isArray(value) ? INTS : INT;
  return message(
    5,
    text(1, name),
    [value].flat().map((item) => integer(field, item)),
    integer(20, type),
  );
}

function node({ op, inputs, outputs, attributes = {} }) {
  return message(
    1,
    inputs.map((name) => text(1, name)),
    outputs.map((name) => text(2, name)),
    text(4, op),
    Object.entries(attributes).map(attribute),
  );
}

/**
 * The bytes of a model. `inputs`, `outputs`: `{ name, type, dims }`; `initializers` also have `data`, a typed array;
 * `nodes`: `{ op, inputs, outputs, attributes }` with integers or lists of integers as attributes.
 */
export function encodeModel({ nodes, inputs, outputs, initializers = [] }) {
  const graph = [
    nodes.map(node),
    text(2, 'graph'),
    initializers.map(initializer),
    inputs.map((input) => valueInfo(11, input)),
    outputs.map((output) => valueInfo(12, output)),
  ];
  return concatenate([
    integer(1, IR_VERSION),
    message(7, graph.flat()),
    message(8, text(1, ''), integer(2, OPSET_VERSION)),
  ]);
}
