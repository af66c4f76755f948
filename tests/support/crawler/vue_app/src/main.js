import { createApp } from "vue";
import { createRouter, createWebHistory } from "vue-router";
import App from "./App.vue";
import Home from "./views/Home.vue";

const router = createRouter({
  history: createWebHistory(),
  routes: [
    { path: "/", component: Home },
    { path: "/shelves/:shelf", component: () => import("./views/Shelf.vue"), props: true },
    { path: "/books/:number", component: () => import("./views/Book.vue"), props: true },
    { path: "/about", component: () => import("./views/About.vue") },
    { path: "/start", redirect: "/" },
  ],
});

createApp(App).use(router).mount("#app");
