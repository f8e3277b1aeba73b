// SPDX-License-Identifier: MIT
// Reads behind the end of a WebAssembly memory again and again. V8 does not look first: the read
// faults, and the handler of SIGSEGV that V8 has installed makes a trap of it.
'use strict';

const bytes = [
    0, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
    1, 6, 1, 0x60, 1, 0x7f, 1, 0x7f, // type 0: i32 -> i32
    3, 2, 1, 0, // function 0 is of type 0
    5, 3, 1, 0, 1, // a memory of one page
    7, 8, 1, 4, 0x72, 0x65, 0x61, 0x64, 0, 0, // function 0 is exported as "read"
    10, 9, 1, 7, 0, 0x20, 0, 0x2d, 0, 0, 0x0b, // local.get 0; i32.load8_u
    11, 7, 1, 0, 0x41, 0, 0x0b, 1, 1, // byte 0 of the memory is 1
];
const { read } = new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array(bytes))).exports;
let trapped = 0;
let sum = 0;
for (let i = 0; i < 1000; i++) {
    try {
        sum += read(i % 2 === 0 ? 65536 + i : 0);
    } catch (error) {
        if (!(error instanceof WebAssembly.RuntimeError))
            throw error;
        trapped++;
    }
}
console.log(trapped, sum);
