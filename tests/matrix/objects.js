// SPDX-License-Identifier: MIT
// Objects, buffers outside the JavaScript heap, compression in worker threads.
const zlib = require("zlib");
const crypto = require("crypto");
const { Worker } = require("worker_threads");

const groups = new Map();
for (let i = 0; i < 100000; i++) {
  const key = "k" + ((i * 7919) % 9973);
  groups.set(key, (groups.get(key) || 0) + i);
}
const text = JSON.stringify([...groups].sort());
console.log(groups.size, crypto.createHash("sha256").update(text).digest("hex"));
let total = 0;
for (let i = 0; i < 300; i++) total += Buffer.alloc(i * 500, i % 256).reduce((a, b) => (a + b) % 65521, 0);
console.log(total);
const packed = [...Array(20).keys()].map(
  (i) => new Promise((done) => zlib.gzip(text.slice(i * 1000), (error, data) => done(data.length))));
const code = "require('worker_threads').parentPort.postMessage(Array(20000).fill('x').join('y').length)";
const workers = [1, 2, 3].map(
  () => new Promise((done) => new Worker(code, { eval: true }).on("message", done)));
Promise.all([...packed, ...workers]).then((lengths) => console.log(lengths.join(" ")));
