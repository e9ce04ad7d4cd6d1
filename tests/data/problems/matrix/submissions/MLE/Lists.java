// A list.
import java.util.ArrayList;

class Lists {
    public static void main(String[] arguments) {
        ArrayList<int[]> blocks = new ArrayList<>();
        for (;;) blocks.add(new int[1 << 18]);
    }
}
