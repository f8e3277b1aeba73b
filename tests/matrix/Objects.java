// SPDX-License-Identifier: MIT
// Compiled and run in one: the compiler, the just-in-time compilers and direct buffers.
import java.nio.ByteBuffer;
import java.util.*;
import java.util.stream.*;
import java.util.zip.*;

public class Objects {
    public static void main(String[] arguments) throws Exception {
        Map<String, Integer> groups = new TreeMap<>();
        for (int i = 0; i < 200000; i++)
            groups.merge("k" + (i * 7919L) % 9973, i % 100, Integer::sum);
        System.out.println(groups.size() + " " + groups.hashCode());
        long sum = IntStream.range(0, 200).parallel().mapToLong(i -> {
            ByteBuffer buffer = ByteBuffer.allocateDirect(i * 1000 + 1);
            buffer.put(0, (byte) i);
            return buffer.get(0) + buffer.capacity();
        }).sum();
        System.out.println(sum);
        Deflater deflater = new Deflater();
        deflater.setInput(groups.toString().getBytes("UTF-8"));
        deflater.finish();
        System.out.println(deflater.deflate(new byte[1 << 20]));
        Thread[] threads = new Thread[20];
        for (int i = 0; i < threads.length; i++)
            (threads[i] = new Thread(() -> new StringBuilder("x".repeat(100000)).reverse())).start();
        for (Thread thread : threads)
            thread.join();
    }
}
