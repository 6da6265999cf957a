// The text of GET /metrics as data.

const LINE = /^(\w+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** Return all samples: {name, labels, value}. */
export function parseMetrics(text) {
  const samples = [];
  for (const line of text.split("\n")) {
    const found = line.startsWith("#") ? null : LINE.exec(line);
    if (!found) continue;
    const labels = {};
    for (const [, name, value] of (found[2] ?? "").matchAll(LABEL)) labels[name] = unescaped(value);
    samples.push({ name: found[1], labels, value: Number(found[3]) });
  }
  return samples;
}

function unescaped(value) {
  return value.replace(/\\(.)/g, (_, character) => (character === "n" ? "\n" : character));
}

/** Return the sum of a metric over all series that `wanted(labels)` accepts. */
export function total(samples, name, wanted = () => true) {
  return samples.filter((one) => one.name === name && wanted(one.labels)).reduce((sum, one) => sum + one.value, 0);
}

/** Return the sums of a metric by the values of a label, the largest first. */
export function totalsBy(samples, name, label) {
  const sums = new Map();
  for (const one of samples) {
    if (one.name === name) sums.set(one.labels[label], (sums.get(one.labels[label]) ?? 0) + one.value);
  }
  return [...sums].sort((a, b) => b[1] - a[1]);
}

/** Return the buckets of a histogram over all accepted series: {limit, count}, with counts of each bucket alone. */
export function histogram(samples, name, wanted = () => true) {
  const sums = new Map();
  for (const one of samples) {
    if (one.name !== `${name}_bucket` || !wanted(one.labels)) continue;
    const limit = one.labels.le === "+Inf" ? Infinity : Number(one.labels.le);
    sums.set(limit, (sums.get(limit) ?? 0) + one.value);
  }
  let before = 0;
  return [...sums]
    .sort((a, b) => a[0] - b[0])
    .map(([limit, upTo]) => {
      const count = upTo - before;
      before = upTo;
      return { limit, count };
    });
}

/** Return the value below which a share of all observations lies, estimated within its bucket; null without any. */
export function quantile(buckets, share) {
  const wanted = buckets.reduce((sum, one) => sum + one.count, 0) * share;
  if (!wanted) return null;
  let seen = 0;
  let lower = 0;
  for (const { limit, count } of buckets) {
    if (seen + count >= wanted) return limit === Infinity ? lower : lower + ((limit - lower) * (wanted - seen)) / count;
    seen += count;
    lower = limit;
  }
  return lower;
}
