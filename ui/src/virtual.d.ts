/** Made by vite.config.ts when the pages are built. */
declare module "virtual:story" {
  const story: import("./lib/story-file").Story;
  export default story;
}
