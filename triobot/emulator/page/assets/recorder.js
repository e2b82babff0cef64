// A voice message out of the microphone, where the browser has one and may use it.

import { stopwatch } from "./format.js";

const FORMATS = [
  ["audio/ogg;codecs=opus", "ogg"],
  ["audio/mp4", "m4a"],
  ["audio/webm;codecs=opus", "webm"],
];

export const canRecord = () => Boolean(navigator.mediaDevices && window.MediaRecorder);

/** Begin to record; stop() resolves to the bytes. Throws when there is no microphone, or it isn't allowed. */
export async function record() {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  const [type, extension] = FORMATS.find(([format]) => MediaRecorder.isTypeSupported(format)) ?? ["", "bin"];
  const recorder = new MediaRecorder(stream, type ? { mimeType: type } : {});
  const pieces = [];
  const started = Date.now();
  const ended = new Promise((resolve) => recorder.addEventListener("stop", resolve));
  recorder.addEventListener("dataavailable", (event) => pieces.push(event.data));
  recorder.start();
  return {
    extension,
    ended,
    time: () => stopwatch((Date.now() - started) / 1000),
    async stop() {
      if (recorder.state !== "inactive") recorder.stop();
      await ended;
      for (const track of stream.getTracks()) track.stop();
      return new Blob(pieces, { type: recorder.mimeType });
    },
  };
}
