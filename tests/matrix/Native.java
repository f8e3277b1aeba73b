// SPDX-License-Identifier: MIT
// A Java program with a library in C (native.c): numbers, arrays, references and threads go over.

import java.util.ArrayList;
import java.util.List;

public class Native {
    static native long make(long next, int value, String name);
    static native int sum(long list, StringBuilder names);
    static native void drop(long list);
    static native void fill(int[] array, int seed);
    static native void keep(Object object);
    static native Object kept(int index);
    static native long callBack(Native object, int times);

    private final List<byte[]> garbage = new ArrayList<>();

    int called(int value) {
        garbage.add(new byte[100]);
        return value * 3;
    }

    static long work(int seed) {
        long total = 0;
        for (int round = 0; round < 30; round++) {
            long list = 0;
            for (int i = 0; i < 500; i++)
                list = make(list, i * seed, "name " + i % 17);
            StringBuilder names = new StringBuilder();
            total += sum(list, names) + names.length();
            drop(list);
            int[] array = new int[3000];
            fill(array, seed + round);
            for (int value : array)
                total += value;
        }
        return total;
    }

    public static void main(String[] arguments) throws InterruptedException {
        System.load(arguments[0]);
        for (int i = 0; i < 200; i++)
            keep("kept " + i);
        long[] totals = new long[4];
        Thread[] threads = new Thread[totals.length];
        for (int i = 0; i < threads.length; i++) {
            int seed = i + 1;
            threads[i] = new Thread(() -> totals[seed - 1] = work(seed));
            threads[i].start();
        }
        for (Thread thread : threads)
            thread.join();
        System.gc();
        for (long total : totals)
            System.out.println(total);
        System.out.println(kept(7) + " " + kept(199));
        System.out.println(callBack(new Native(), 20000));
    }
}
