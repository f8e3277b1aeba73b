(* SPDX-License-Identifier: MIT
   Maps, buffers and big arrays. *)
module M = Map.Make (String)

let () =
  let table = ref M.empty in
  for i = 0 to 30000 do
    let key = string_of_int (i * 7919 mod 9973) in
    let old = try M.find key !table with Not_found -> 0 in
    table := M.add key (old + i) !table
  done;
  let buffer = Buffer.create 16 in
  M.iter (fun key value -> Buffer.add_string buffer (Printf.sprintf "%s=%d;" key value)) !table;
  print_endline (Digest.to_hex (Digest.string (Buffer.contents buffer)));
  let total = ref 0 in
  for i = 1 to 200 do
    let a = Bigarray.Array1.create Bigarray.int Bigarray.c_layout (i * 100) in
    Bigarray.Array1.fill a i;
    total := !total + a.{i * 50}
  done;
  Printf.printf "%d\n" !total
