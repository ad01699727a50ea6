// Draws at most once per frame of the browser, and counts the frames of a movement.

const REST = 200;

export class Frames {
  // `told` is called with the counts of each movement after its end
  constructor(draw, told) {
    Object.assign(this, { draw, told, waiting: 0, isDue: false, movement: null });
  }

  // a new picture is due in the next frame
  ask() {
    this.isDue = true;
    this.waiting ||= requestAnimationFrame((time) => this.show(time));
  }

  moved() {
    this.movement ??= { first: null, last: null, before: null, drawn: 0, shown: 0, longest: 0 };
    this.movement.at = performance.now();
    this.ask();
  }

  stop() { cancelAnimationFrame(this.waiting); }

  show(time) {
    this.waiting = 0;
    const one = this.movement, isDrawn = this.isDue;
    this.isDue = false;
    if (isDrawn) this.draw();
    if (one) this.count(one, time, isDrawn);
  }

  count(one, time, isDrawn) {
    one.shown += 1;
    if (one.before != null) one.longest = Math.max(one.longest, time - one.before);
    one.before = time;
    if (isDrawn) {
      one.first ??= time;
      Object.assign(one, { last: time, drawn: one.drawn + 1, until: one.shown });
    }
    if (performance.now() - one.at < REST) {
      this.waiting ||= requestAnimationFrame((next) => this.show(next));
      return;
    }
    this.movement = null;
    const seconds = (one.last - one.first) / 1000;
    // two or three frames give no meaningful rate
    if (seconds > 0.25) {
      this.told({ seconds, longest: one.longest, drawn: (one.drawn - 1) / seconds,
        shown: (one.until - 1) / seconds });
    }
  }
}
